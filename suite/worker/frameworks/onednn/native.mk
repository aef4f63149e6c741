CXXFLAGS += -isystem $(PREFIX)/include
LDLIBS = -L$(PREFIX)/lib -Wl,-rpath,$(PREFIX)/lib -ldnnl

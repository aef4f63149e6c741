NVIDIA = $(PACKAGES)/nvidia
CXXFLAGS += $(addprefix -isystem ,$(wildcard $(NVIDIA)/*/include))
# The libraries of the packages have no name without a version.
LDLIBS = $(foreach each,$(wildcard $(NVIDIA)/*/lib),-L$(each) -Wl,-rpath,$(each)) \
	-l:libcudnn.so.9 -l:libcublas.so.12 -l:libcublasLt.so.12 -l:libcudart.so.12

NVIDIA = $(PACKAGES)/nvidia
CXXFLAGS += $(addprefix -isystem ,$(wildcard $(NVIDIA)/*/include))
# The libraries of the packages have no name without a version, which is that of CUDA (12 or 13).
library = -l:$(or $(notdir $(firstword $(wildcard $(NVIDIA)/*/lib/$(1).so.*))),$(1).so)
LDLIBS = $(foreach each,$(wildcard $(NVIDIA)/*/lib),-L$(each) -Wl,-rpath,$(each)) \
	$(foreach each,libcudnn libcublas libcublasLt libcudart,$(call library,$(each)))

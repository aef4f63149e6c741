/* A substitute for libnvidia-ml.so.1 in the tests, with the same ABI: two GPUs of 100 W and 200 W.
 * FAKE_NVML_COUNT asks for more of them, up to eight, of 100 W each.
 * The first GPU also has a process that is not the worker's. FAKE_NVML names its fault, which starts
 * half a second after the library is initialized:
 *   fine | absent (no energy counter, from the start) | wraps | fails (the counter) | vanishes
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, GPU_IS_LOST = 15, UNKNOWN = 999 };
typedef struct { int number; } *Device;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int gpu, memory; } Rates;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } Process;

enum { MOST = 8 };
static struct { int number; } gpus[MOST] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
static const char *const uuids[MOST] = {"GPU-aaaa", "GPU-bbbb", "GPU-cccc", "GPU-dddd",
                                        "GPU-eeee", "GPU-ffff", "GPU-gggg", "GPU-hhhh"};
static const unsigned int watts[MOST] = {100, 200, 100, 100, 100, 100, 100, 100};
static struct timespec started;

static double elapsed_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - started.tv_sec) + (double)(now.tv_nsec - started.tv_nsec) / 1e9;
}

static int is(const char *fault) {
    const char *chosen = getenv("FAKE_NVML");
    return chosen && strcmp(chosen, fault) == 0;
}

static int late(Device device, const char *fault) {
    return device->number == 0 && is(fault) && elapsed_s() > 0.5;
}

static int lost(Device device) { return late(device, "vanishes") ? GPU_IS_LOST : SUCCESS; }

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    clock_gettime(CLOCK_MONOTONIC, &started);
    while (is("hangs")) sleep(1);
    return SUCCESS;
}

const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "failed"; }

static unsigned int present(void) {
    const char *wanted = getenv("FAKE_NVML_COUNT");
    int count = wanted ? atoi(wanted) : 2;
    return count < 1 ? 1 : count > MOST ? MOST : (unsigned int)count;
}

int nvmlDeviceGetCount_v2(unsigned int *count) { *count = present(); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device *device) {
    if (index >= present()) return NOT_FOUND;
    *device = (Device)&gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
    for (unsigned int i = 0; i < present(); i++)
        if (strcmp(uuid, uuids[i]) == 0) return nvmlDeviceGetHandleByIndex_v2(i, device);
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned int length) {
    snprintf(uuid, length, "%s", uuids[device->number]);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device device, Memory *memory) {
    memory->total = 1ULL << 34;
    memory->used = (1ULL << 30) * (unsigned)(device->number + 1);
    memory->free = memory->total - memory->used;
    return lost(device);
}

int nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long *millijoules) {
    double joules = 1000 + watts[device->number] * elapsed_s();
    if (device->number == 0 && is("absent")) return NOT_SUPPORTED;
    if (late(device, "fails")) return UNKNOWN;
    if (late(device, "wraps")) joules -= 1000;
    *millijoules = (unsigned long long)(joules * 1e3);
    return lost(device);
}

int nvmlDeviceGetPowerUsage(Device device, unsigned int *milliwatts) {
    *milliwatts = watts[device->number] * 1000;
    return lost(device);
}

int nvmlDeviceGetUtilizationRates(Device device, Rates *rates) {
    rates->gpu = 90;
    rates->memory = 40;
    return lost(device);
}

int nvmlDeviceGetClockInfo(Device device, int type, unsigned int *mhz) {
    *mhz = type == 1 ? 1500 : 0; /* NVML_CLOCK_SM */
    return lost(device);
}

int nvmlDeviceGetTemperature(Device device, int sensor, unsigned int *celsius) {
    *celsius = sensor == 0 ? 60 : 0;
    return lost(device);
}

/* As in an older driver, which does not have nvmlDeviceGetCurrentClocksEventReasons. */
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *reasons) {
    *reasons = device->number == 0 ? 0x4 : 0x1; /* power cap; idle */
    return lost(device);
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned int *count, Process *found) {
    if (lost(device)) return GPU_IS_LOST;
    if (device->number == 1) {
        *count = 0;
        return SUCCESS;
    }
    if (found == NULL || *count == 0) {
        *count = 1;
        return found == NULL ? 7 : SUCCESS; /* NVML_ERROR_INSUFFICIENT_SIZE */
    }
    *count = 1;
    memset(found, 0, sizeof *found);
    found->pid = 1;
    return SUCCESS;
}

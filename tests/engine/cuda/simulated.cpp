#include "tests/engine/cuda/simulated.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "engine/core/device_code.h"
#include "engine/core/device_memory.h"
#include "engine/cuda/coef/coef_decode.h"
#include "engine/cuda/grid/elements.h"
#include "engine/cuda/grid/grid.h"

namespace dlpipe::engine {

namespace cuda {

extern const DeviceCode device_code_cuda_simulated;  // engine/cuda/entry/device_code.cu, as plain C++

const Kernels* simulated_kernels_of(const OpRow& row) {
  const auto found =
      std::find_if(simulated_table().begin(), simulated_table().end(),
                   [&](const SimulatedRow& one) { return std::string_view(one.name) == row.record->name; });
  return found != simulated_table().end() ? found->kernels : nullptr;
}

}  // namespace cuda

static SimulatedDevice* s_device = nullptr;
static thread_local SimulatedDevice* t_device = nullptr;  // instead of that, for this thread

/// What the kernels that the thread launches read and write, where somebody says so.
struct Touched {
  std::vector<SimulatedDevice::Range> reads;
  std::vector<SimulatedDevice::Range> writes;
};
static thread_local Touched t_touched;

namespace cuda {

void simulated_coef_decode(const coef::CoefBatch& batch, Stream& stream);
void simulated_coef_decode(const coef::CoefBatch& batch, Stream& stream) {
  const SimulatedDevice::Range statuses{batch.statuses,
                                        static_cast<size_t>(batch.capacity) * sizeof(int32_t)};
  t_touched = {{{batch.tiles, batch.tile_bytes}},
               {{batch.scratch, batch.work.scratch_bytes}, {batch.pixels, batch.pixel_bytes}, statuses}};
  coef_decode_cuda_simulated(batch, stream);
  t_touched = {};
}

}  // namespace cuda

SimulatedCuda::SimulatedCuda(SimulatedDevice& device) {
  s_device = &device;
  set_simulated_device_code(&cuda::device_code_cuda_simulated);
  cuda::simulated_queue = [](const char* name, std::function<void()> work) {
    Stream& stream = engine_stream(t_device != nullptr ? *t_device : *s_device);
    SimulatedDevice::of(stream).launch(stream, name, t_touched.reads, t_touched.writes, std::move(work));
  };
}

OnSimulatedDevice::OnSimulatedDevice(SimulatedDevice& device) {
  t_device = &device;
}

OnSimulatedDevice::~OnSimulatedDevice() {
  synchronize(*t_device);
  t_device = nullptr;
}

SimulatedCuda::~SimulatedCuda() {
  synchronize(*s_device);
  cuda::simulated_queue = nullptr;
  set_simulated_device_code(nullptr);
}

}  // namespace dlpipe::engine

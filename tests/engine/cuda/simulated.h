// The kernels of engine/cuda compiled for a simulated grid.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "dlpipe/op.h"
#include "tests/base/device/simulated_device.h"

namespace dlpipe::engine {

struct SimulatedRow {
  const char* name;  // of the op
  const Kernels* kernels;
};

/// One row per op that has a CUDA backend.
std::span<const SimulatedRow> simulated_table();

/// While one lives, simulated devices run these kernels on this device, each thread's in its stream.
class SimulatedCuda {
 public:
  explicit SimulatedCuda(SimulatedDevice& device);
  ~SimulatedCuda();
  SimulatedCuda(const SimulatedCuda&) = delete;
  SimulatedCuda& operator=(const SimulatedCuda&) = delete;
};

/// While one lives, what this thread computes on simulated devices is computed on this one: ranks that are threads have one
/// each, as processes would. The device lives as long as its threads.
class OnSimulatedDevice {
 public:
  explicit OnSimulatedDevice(SimulatedDevice& device);
  ~OnSimulatedDevice();  // waits
  OnSimulatedDevice(const OnSimulatedDevice&) = delete;
  OnSimulatedDevice& operator=(const OnSimulatedDevice&) = delete;
};

/// While one lives, this thread's convolutions on the host's memory have a library in cuDNN's place: plain loops.
class SimulatedConvolutions {
 public:
  SimulatedConvolutions();
  ~SimulatedConvolutions();
  SimulatedConvolutions(const SimulatedConvolutions&) = delete;
  SimulatedConvolutions& operator=(const SimulatedConvolutions&) = delete;

  struct Images {
    int64_t channels;
    DType dtype;
  };
  /// Of every convolution that was asked for.
  const std::vector<Images>& images() const { return images_; }
  void note(int64_t channels, DType dtype) { images_.push_back({channels, dtype}); }

 private:
  std::vector<Images> images_;
};

/// While one lives, this thread's products on the host's memory take a vector beside, as cublasLt's do: plain loops.
class SimulatedEpilogues {
 public:
  SimulatedEpilogues();
  ~SimulatedEpilogues();
  SimulatedEpilogues(const SimulatedEpilogues&) = delete;
  SimulatedEpilogues& operator=(const SimulatedEpilogues&) = delete;

  /// Products with a bias into rows that lie beside each other, and into rows of a larger pitch (kernels/products.cu).
  int biases() const { return biases_; }
  int biases_of_pitched_rows() const { return biases_of_pitched_rows_; }
  /// With the gradient of a bias.
  int sums() const { return sums_; }
  void note_bias(bool is_pitched) { ++(is_pitched ? biases_of_pitched_rows_ : biases_); }
  void note_sums() { ++sums_; }

 private:
  int biases_ = 0, biases_of_pitched_rows_ = 0, sums_ = 0;
};

}  // namespace dlpipe::engine

namespace dlpipe::test {

/// The simulated device of a test program. Lives as long as the streams that threads have on it.
inline SimulatedDevice& simulated() {
  static SimulatedDevice device(std::chrono::microseconds(2));
  return device;
}

}  // namespace dlpipe::test

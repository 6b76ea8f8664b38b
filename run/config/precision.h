// What --dtype, --tf32 and --no-cudnn mean on a device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/dtype.h"
#include "dlpipe/base/error.h"
#include "dlpipe/engine/core/op.h"

namespace dlpipe::run {

/// What --dtype may be: "f32", "bf16", "f16".
std::vector<std::string> precision_names();

/// The dtype that training on `device` is autocast to. kMisuse for what there is none of: f16 on the host.
Result<DType> training_dtype(std::string_view name, const Device& device);

/// The same for a trained model, which runs anywhere: f32 where the host has to do what was trained in f16.
Result<DType> inference_dtype(std::string_view name, const Device& device);

/// The dtype that a compiled model is autocast to. It runs on the CPU, by commands that have no --device: kMisuse for all but f32
/// and bf16.
Result<DType> compiled_dtype(std::string_view name);

/// Whether `--tf32` is taken on `device`. Where it is `wanted` on the host, a warning says that it changes
/// nothing there.
bool take_tf32(bool wanted, const Device& device);

/// Whose convolutions and attention a bench takes on `device`, with `--no-cudnn` or without. kMisuse for
/// --no-cudnn on the host: it would measure the same twice and call one of them without cuDNN.
Result<engine::Cudnn> take_cudnn(bool no_cudnn, const Device& device);

}  // namespace dlpipe::run

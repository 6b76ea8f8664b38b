#include "run/config/values.h"

#include <algorithm>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/log.h"

namespace dlpipe::run {

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) names.emplace_back(dtype_name(dtype));
  return names;
}

static Result<DType> precision_of(std::string_view name) {
  const std::vector<std::string> names = precision_names();
  if (std::ranges::find(names, name) != names.end()) return parse_dtype(name);
  return misuse("dtype", "--dtype can't be '", name, "'", suggestion(name, names));
}

Result<DType> training_dtype(std::string_view name, const Device& device) {
  DLPIPE_ASSIGN_OR_RETURN(const DType dtype, precision_of(name));
  if (dtype != DType::kF16 || !device.is_host()) return dtype;
  return misuse("dtype", "--dtype f16 needs a GPU",
                cuda_device(0).ok() ? "; give --device cuda, or" : ", but there is none here; give",
                " --dtype bf16, which the CPU supports");
}

Result<DType> inference_dtype(std::string_view name, const Device& device) {
  DLPIPE_ASSIGN_OR_RETURN(const DType dtype, precision_of(name));
  return dtype == DType::kF16 && device.is_host() ? DType::kF32 : dtype;
}

Result<DType> compiled_dtype(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return misuse("dtype", "a compiled model runs on the CPU in f32 or bf16, not in '", name,
                "'; give --dtype bf16, or leave it out");
}

bool take_tf32(bool wanted, const Device& device) {
  if (!wanted || !device.is_host()) return wanted;
  log(LogLevel::kWarning, concat("--tf32 has no effect on ", device.name(), ": it needs --device cuda"));
  return false;
}

Result<engine::Cudnn> take_cudnn(bool no_cudnn, const Device& device) {
  if (!no_cudnn) return engine::Cudnn::kAuto;
  if (!device.is_host()) return engine::Cudnn::kNever;
  return misuse("bench", "--no-cudnn has no effect on ", device.name(),
                ", which has no cuDNN; give --device cuda, or leave it out");
}

}  // namespace dlpipe::run

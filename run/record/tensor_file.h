// Named tensors of the engine in safetensors files, which are written, or what torch.save wrote, which is read; and the hash over them that receipts hold.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/layers/module.h"

namespace dlpipe::run {

/// Writes aside and renames; tensors are stored plain and row-major, in PyTorch's names and shapes. `metadata` is what the
/// file says of them.
Status save_tensors(const std::string& path, std::span<const engine::NamedTensor> tensors,
                    std::map<std::string, std::string> metadata = {});
/// What a file says of its tensors.
Result<std::map<std::string, std::string>> read_metadata(const std::string& path);
/// Names and shapes of a file's tensors; their bytes are not read.
Result<std::vector<engine::NamedShape>> list_tensors(const std::string& path);
/// All tensors of a file. Element types that dlpipe lacks are kUnsupported, by name.
Result<std::vector<engine::NamedTensor>> load_tensors(const std::string& path);

/// xxHash3-64 over names, shapes, dtypes and bytes in order, chained from `seed`.
uint64_t hash_tensors(std::span<const engine::NamedTensor> tensors, uint64_t seed);

}  // namespace dlpipe::run

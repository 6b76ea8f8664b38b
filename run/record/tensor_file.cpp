#include "dlpipe/run/record/tensor_file.h"

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/tensor_bytes.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/safetensors.h"
#include "dlpipe/io/formats/weights_file.h"

namespace dlpipe::run {

namespace {

using engine::NamedTensor;
using engine::Tensor;

Tensor plain_contiguous(const Tensor& tensor) {
  return (tensor.is_contiguous() ? tensor : tensor.contiguous_copy()).to(cpu_device());
}

Result<Shape> shape_of(const formats::WeightsFile& file, const formats::SafetensorsEntry& entry) {
  if (entry.shape.size() > static_cast<size_t>(Shape::kMaxRank)) {
    return Status(ErrorCode::kUnsupported,
                  concat("[weights] tensor '", entry.name, "' of ", file.path(), " has ", entry.shape.size(),
                         " dimensions; at most ", Shape::kMaxRank, " are supported"));
  }
  return Shape{std::span<const int64_t>(entry.shape)};
}

Result<Tensor> read_tensor(const formats::WeightsFile& file, const formats::SafetensorsEntry& entry) {
  DLPIPE_ASSIGN_OR_RETURN(const Shape shape, shape_of(file, entry));
  if (!entry.dtype) {
    return Status(ErrorCode::kUnsupported, concat("[weights] tensor '", entry.name, "' of ", file.path(),
                                                  " is ", entry.dtype_text, "; convert it to F32"));
  }
  Tensor tensor = Tensor::empty(shape, *entry.dtype);
  DLPIPE_RETURN_IF_ERROR(file.read(entry, bytes_of(tensor)));
  return tensor;
}

}  // namespace

Status save_tensors(const std::string& path, std::span<const NamedTensor> tensors,
                    std::map<std::string, std::string> metadata) {
  std::vector<Tensor> kept;  // copies of what isn't contiguous live until the file is written
  std::vector<formats::SafetensorsTensor> entries;
  for (const NamedTensor& named : tensors) {
    kept.push_back(plain_contiguous(named.tensor));
    const Tensor& tensor = kept.back();
    entries.push_back(
        {named.name, tensor.dtype(), {tensor.shape().begin(), tensor.shape().end()}, bytes_of(tensor)});
  }
  metadata.emplace("format", "pt");
  return formats::write_safetensors(path, entries, metadata).status();
}

Result<std::map<std::string, std::string>> read_metadata(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::WeightsFile file, formats::WeightsFile::open(path));
  return file.metadata();
}

Result<std::vector<engine::NamedShape>> list_tensors(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::WeightsFile file, formats::WeightsFile::open(path));
  std::vector<engine::NamedShape> shapes;
  for (const formats::SafetensorsEntry& entry : file.entries()) {
    DLPIPE_ASSIGN_OR_RETURN(const Shape shape, shape_of(file, entry));
    shapes.push_back({entry.name, shape});
  }
  return shapes;
}

Result<std::vector<NamedTensor>> load_tensors(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::WeightsFile file, formats::WeightsFile::open(path));
  std::vector<NamedTensor> tensors;
  for (const formats::SafetensorsEntry& entry : file.entries()) {
    DLPIPE_ASSIGN_OR_RETURN(Tensor tensor, read_tensor(file, entry));
    tensors.push_back({entry.name, std::move(tensor)});
  }
  return tensors;
}

uint64_t hash_tensors(std::span<const NamedTensor> tensors, uint64_t seed) {
  uint64_t hash = seed;
  for (const NamedTensor& named : tensors) {
    const std::string head =
        concat(named.name, " ", dtype_name(named.tensor.dtype()), " ", named.tensor.shape().to_string());
    hash = data::checksum64(std::as_bytes(std::span(head.data(), head.size())), hash);
    hash = data::checksum64(bytes_of(plain_contiguous(named.tensor)), hash);
  }
  return hash;
}

}  // namespace dlpipe::run

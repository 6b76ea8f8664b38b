#include "engine/cuda/cudnn/cudnn.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "engine/cuda/libraries/loaded_library.h"

namespace dlpipe::engine::cuda::cudnn {
namespace {

Result<Functions> load() {
  LoadedLibrary library({"libcudnn.so.9"});
  Functions out{};
  library.find("cudnnGetVersion", out.version);
  library.find("cudnnGetErrorString", out.error_string);
  library.find("cudnnGetLastErrorString", out.last_error);
  library.find("cudnnCreate", out.create);
  library.find("cudnnDestroy", out.destroy);
  library.find("cudnnSetStream", out.set_stream);
  library.find("cudnnBackendCreateDescriptor", out.create_descriptor);
  library.find("cudnnBackendDestroyDescriptor", out.destroy_descriptor);
  library.find("cudnnBackendFinalize", out.finalize);
  library.find("cudnnBackendSetAttribute", out.set_attribute);
  library.find("cudnnBackendGetAttribute", out.get_attribute);
  library.find("cudnnBackendExecute", out.execute);
  if (!library.status().ok())
    return Status(library.status().code(), concat("[cuda] cuDNN: ", library.status().message()));
  return out;
}

/// "9.26.0" for 92600, the numbering of CUDNN_VERSION from cuDNN 9 on.
std::string version_text(size_t version) {
  return concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string describe(const char* verb, DescriptorType type, Attribute name) {
  return concat(verb, " attribute ", static_cast<int>(name), " of a descriptor of type ",
                static_cast<int>(type));
}

}  // namespace

const Result<Functions>& library() {
  static const Result<Functions> loaded = load();
  return loaded;
}

Status status_of(Code code, std::string_view what) {
  if (code == Code::kSuccess) return {};
  std::array<char, 1024> detail{};
  library()->last_error(detail.data(), detail.size() - 1);
  ErrorCode kind = ErrorCode::kInternal;
  const bool is_incomplete =
      code == Code::kSublibraryVersionMismatch || code == Code::kSublibraryLoadingFailed;
  if (is_incomplete || (code >= Code::kNotSupported && code < Code::kInternalError))
    kind = ErrorCode::kUnsupported;
  if (code == Code::kHostAllocationFailed || code == Code::kDeviceAllocationFailed)
    kind = ErrorCode::kOutOfMemory;
  return Status(kind, concat("[cuda] cuDNN: ", what, ": ", library()->error_string(code),
                             detail[0] == 0 ? "" : ": ", detail.data()));
}

void CloseHandle::operator()(Context* handle) const {
  library()->destroy(handle);
}

Result<Handle> make_handle() {
  if (!library().ok()) return library().status();
  Context* handle = nullptr;
  const Code code = library()->create(&handle);
  if (code != Code::kSuccess) return status_of(code, "cudnnCreate");
  return Handle(handle);
}

Descriptor::Descriptor(DescriptorType type) : type_(type) {
  Backend* backend = nullptr;
  status_ = status_of(library()->create_descriptor(type, &backend),
                      concat("a descriptor of type ", static_cast<int>(type)));
  if (status_.ok()) backend_.reset(backend);
}

void Descriptor::Destroy::operator()(Backend* backend) const {
  library()->destroy_descriptor(backend);
}

Descriptor& Descriptor::finalize() {
  if (!status_.ok()) return *this;
  const Code code = library()->finalize(get());
  if (code != Code::kSuccess)
    status_ = status_of(code, concat("finalizing a descriptor of type ", static_cast<int>(type_)));
  return *this;
}

Descriptor& Descriptor::set_elements(Attribute name, AttributeType type, int64_t count,
                                     const void* elements) {
  if (!status_.ok()) return *this;
  const Code code = library()->set_attribute(get(), name, type, count, elements);
  if (code != Code::kSuccess) status_ = status_of(code, describe("setting", type_, name));
  return *this;
}

int64_t Descriptor::get_elements(Attribute name, AttributeType type, int64_t wanted, void* elements) {
  if (!status_.ok()) return 0;
  int64_t count = 0;
  const Code code = library()->get_attribute(get(), name, type, wanted, &count, elements);
  if (code == Code::kSuccess) return count;
  status_ = status_of(code, describe("asking for", type_, name));
  return 0;
}

size_t Descriptor::get_filled(Attribute name, AttributeType type, int64_t wanted, void* elements) {
  return static_cast<size_t>(std::min(wanted, get_elements(name, type, wanted, elements)));
}

std::vector<Descriptor> Descriptor::get_descriptors(Attribute name, DescriptorType type) {
  const int64_t count = get_elements(name, AttributeType::kDescriptor, 0, nullptr);
  std::vector<Descriptor> out;
  std::vector<Backend*> backends;
  for (int64_t i = 0; i < count; ++i) {
    out.emplace_back(type);
    if (!out.back().status().ok()) {
      status_ = out.back().status();
      return {};
    }
    backends.push_back(out.back().get());
  }
  if (count > 0) {
    const size_t filled = get_filled(name, AttributeType::kDescriptor, count, backends.data());
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(filled), out.end());
  }
  return out;
}

}  // namespace dlpipe::engine::cuda::cudnn

namespace dlpipe::engine::cuda {

std::string cudnn_summary() {
  constexpr const char* kWithout = "; convolutions run as cuBLAS products, attention with dlpipe's kernels";
  if (!cudnn::library().ok()) return concat("no cuDNN 9: ", cudnn::library().status().message(), kWithout);
  const std::string version = cudnn::version_text(cudnn::library()->version());
  const Result<cudnn::Handle> handle = cudnn::make_handle();
  if (!handle.ok()) return concat("cuDNN ", version, " can't be used: ", handle.status().message(), kWithout);
  return concat("cuDNN ", version);
}

}  // namespace dlpipe::engine::cuda

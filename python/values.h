// Conversions between Python and the library: texts, paths, JSON, images, and arrays.
//
// Memory of the library becomes arrays of NumPy, PyTorch or JAX through DLPack: nothing is copied, and the memory lives until the
// last array and the last view of one are gone. PyTorch and JAX drop arrays on threads of their own, also while the interpreter
// ends; dropping takes no interpreter lock. All functions here need the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/messages.h"
#include "dlpipe/device.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"

namespace dlpipe::python {

// ---- texts, paths, JSON

/// A str of the library's text, which may contain file names that aren't UTF-8.
nanobind::object to_text(std::string_view text);

/// A list of such texts.
template <class Texts>
nanobind::list to_texts(const Texts& texts) {
  nanobind::list list;
  for (const auto& text : texts) list.append(to_text(text));
  return list;
}

/// json.loads of `text`: the program's --json output as Python objects.
nanobind::any from_json(std::string_view text);

/// A list with one object per line.
nanobind::any from_json_lines(const std::vector<std::string>& lines);

/// A path in the system's form: the bytes from os.fsencode. Throws Error kMisuse if it contains a zero byte, since the system would
/// use the path up to that byte.
inline std::string to_path(const nanobind::bytes& path) {
  std::string text(path.c_str(), path.size());
  if (text.find('\0') != std::string::npos)
    refuse("path", in_quotes(text), " contains a zero byte, which no path can; remove it");
  return text;
}

// ---- images

/// Encodes what dlpipe/images.py returns: bytes of a file stay unchanged; pixels u8 [height, width, 1 or 3], C-contiguous,
/// become a raw image (io/data/codec/bitmaps.h).
std::vector<std::byte> image_bytes(nanobind::handle value);
/// The same for a mask, whose pixels [height, width, 1] become a PNG.
std::vector<std::byte> mask_bytes(nanobind::handle value);
std::vector<std::byte> bytes_of(nanobind::handle bytes);

// ---- arrays

/// kDlpack: objects with the DLPack protocol, for any library.
enum class Framework : uint8_t { kNumpy, kTorch, kJax, kDlpack };
/// "numpy", "torch", "jax", "dlpack"; throws Error.
Framework parse_framework(const std::string& name);

/// Sizes in elements; empty strides: dense rows.
struct ArrayForm {
  DType dtype = DType::kU8;
  std::vector<size_t> shape;
  std::vector<int64_t> strides;
};
/// [count, shape...], dense.
ArrayForm dense_form(DType dtype, int64_t count, const Shape& shape);
/// The same memory viewed as [N,C,H,W], which torch calls channels_last.
ArrayForm channels_first(const ArrayForm& nhwc);

/// What an array keeps alive. The last copy may be destroyed on any thread.
using Memory = std::shared_ptr<const void>;
/// Memory that a Python object owns.
Memory memory_of(nanobind::object owner);

nanobind::any make_array(Framework framework, void* data, const ArrayForm& form, Memory memory);
/// For NumPy, read-only.
nanobind::any make_constant_array(const void* data, const ArrayForm& form, Memory memory);
/// An object with the DLPack protocol. Its memory is on `device` (null: the CPU). The consumer names the stream that will read
/// it, and `read_on` is called with that stream. On the CPU there is no stream.
nanobind::any make_dlpack(void* data, const ArrayForm& form, Memory memory, const Device* device,
                          std::function<void(int64_t stream)> read_on);

void bind_arrays(nanobind::module_& module);

}  // namespace dlpipe::python

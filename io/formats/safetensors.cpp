#include "io/formats/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "io/formats/weights_file.h"

namespace dlpipe::formats {

static_assert(std::endian::native == std::endian::little, "safetensors are little endian; swap bytes here");

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxRank = 64;

struct ElementType {
  std::string_view text;
  uint64_t bytes;
  std::optional<DType> dtype;
};
const std::array<ElementType, 17> kElementTypes = {{{"F64", 8, DType::kF64},
                                                    {"F32", 4, DType::kF32},
                                                    {"BF16", 2, DType::kBF16},
                                                    {"I64", 8, DType::kI64},
                                                    {"I32", 4, DType::kI32},
                                                    {"U8", 1, DType::kU8},
                                                    {"F16", 2, DType::kF16},
                                                    {"I16", 2, {}},
                                                    {"I8", 1, {}},
                                                    {"U64", 8, {}},
                                                    {"U32", 4, {}},
                                                    {"U16", 2, {}},
                                                    {"BOOL", 1, {}},
                                                    {"F8_E4M3", 1, {}},
                                                    {"F8_E5M2", 1, {}},
                                                    {"F8_E8M0", 1, {}},
                                                    {"C64", 8, {}}}};

const ElementType* find_type(std::string_view text) {
  for (const ElementType& type : kElementTypes) {
    if (type.text == text) return &type;
  }
  return nullptr;
}
std::string_view type_text(DType dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.dtype == dtype) return type.text;
  }
  return "?";
}

Status corrupt(std::string_view what) {
  return {ErrorCode::kCorrupt, concat("[safetensors] ", what)};
}

Result<SafetensorsEntry> parse_entry(const std::string& name, const Json& json, uint64_t data_bytes) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype_text = json["dtype"].as_string();
  const ElementType* type = find_type(entry.dtype_text);
  if (type == nullptr)
    return corrupt(concat("tensor '", name, "' has the unknown dtype '", entry.dtype_text, "'"));
  entry.dtype = type->dtype;
  if (!json["shape"].is_array() || json["shape"].items().size() > kMaxRank) {
    return corrupt(
        concat("tensor '", name, "' has no shape, or one with more than ", kMaxRank, " dimensions"));
  }
  uint64_t size_bytes = type->bytes;
  bool overflow = false;
  for (const Json& size : json["shape"].items()) {
    if (!size.is_integer() || size.as_int() < 0)
      return corrupt(concat("tensor '", name, "' has a bad size in its shape"));
    overflow |= __builtin_mul_overflow(size_bytes, static_cast<uint64_t>(size.as_int()), &size_bytes);
    entry.shape.push_back(size.as_int());
  }
  const Json::Array& offsets = json["data_offsets"].items();
  if (offsets.size() != 2 || !offsets[0].is_integer() || !offsets[1].is_integer() ||
      offsets[0].as_int() < 0 || offsets[1].as_int() < offsets[0].as_int() ||
      static_cast<uint64_t>(offsets[1].as_int()) > data_bytes) {
    return corrupt(
        concat("tensor '", name, "' has data_offsets outside the file's ", data_bytes, " bytes of data"));
  }
  entry.begin = static_cast<uint64_t>(offsets[0].as_int());
  entry.end = static_cast<uint64_t>(offsets[1].as_int());
  if (overflow || size_bytes != entry.size_bytes()) {
    return corrupt(concat("tensor '", name, "' spans ", entry.size_bytes(),
                          " bytes, but its shape and dtype need ",
                          overflow ? std::string("more than 2^64") : std::to_string(size_bytes)));
  }
  return entry;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes) {
  Result<Json> parsed = Json::parse(json);
  if (!parsed.ok()) return corrupt(concat("the header is ", without_area(parsed.status().message())));
  if (!parsed->is_object()) return corrupt("the header is not a JSON object");
  SafetensorsHeader header;
  for (const auto& [name, value] : parsed->members()) {
    if (name == "__metadata__") {
      for (const auto& [key, text] : value.members()) header.metadata[key] = text.as_string();
      continue;
    }
    DLPIPE_ASSIGN_OR_RETURN(SafetensorsEntry entry, parse_entry(name, value, data_bytes));
    header.entries.push_back(std::move(entry));
  }
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  uint64_t expected = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin != expected)
      return corrupt(concat("a gap or an overlap before the bytes of tensor '", entry.name, "'"));
    expected = entry.end;
  }
  if (expected != data_bytes) {
    return corrupt(concat("the tensors cover ", expected, " bytes, but the file has ", data_bytes));
  }
  return header;
}

static Status read_at(int fd, const std::string& path, uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return status_from_errno("safetensors", concat("cannot read ", path), errno);
    if (got == 0) return corrupt(concat(path, " shrank while it was being read; get it again"));
    to = to.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

// The actual type of the file, if its first and last bytes show it; else `problem`.
static Status or_foreign(int fd, const std::string& path, uint64_t file_bytes, const Status& problem) {
  constexpr uint64_t kLookedAt = 1 << 20;  // an archive's directory is at its end
  const auto count = std::min(file_bytes, kLookedAt);
  std::string begin(count, '\0');
  std::string end(count, '\0');
  DLPIPE_RETURN_IF_ERROR(read_at(fd, path, 0, std::as_writable_bytes(std::span(begin))));
  DLPIPE_RETURN_IF_ERROR(read_at(fd, path, file_bytes - count, std::as_writable_bytes(std::span(end))));
  const std::string foreign = describe_foreign_weights(path, begin, end);
  return foreign.empty() ? Status(problem.code(), concat(problem.message(), "; get it again"))
                         : Status(ErrorCode::kUnsupported, concat("[weights] ", path, " is ", foreign));
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(RegularFile opened, RegularFile::open("safetensors", path));
  const uint64_t file_bytes = opened.stamp().size_bytes;
  SafetensorsFile file(path, opened.release());
  const auto refuse = [&](const Status& problem) { return or_foreign(file.fd_, path, file_bytes, problem); };
  uint64_t header_bytes = 0;
  if (file_bytes < sizeof header_bytes)
    return refuse(corrupt(concat(path, " is too short to be a safetensors file")));
  DLPIPE_RETURN_IF_ERROR(read_at(file.fd_, path, 0, std::as_writable_bytes(std::span(&header_bytes, 1))));
  if (header_bytes > kMaxHeaderBytes || header_bytes > file_bytes - sizeof header_bytes) {
    return refuse(corrupt(concat(path, " claims a header of ", header_bytes,
                                 " bytes; it is not a safetensors file, or is truncated")));
  }
  std::string json(header_bytes, '\0');
  DLPIPE_RETURN_IF_ERROR(read_at(file.fd_, path, sizeof header_bytes,
                                 std::as_writable_bytes(std::span(json.data(), json.size()))));
  file.data_begin_ = sizeof header_bytes + header_bytes;
  Result<SafetensorsHeader> header = parse_safetensors_header(json, file_bytes - file.data_begin_);
  if (!header.ok()) return refuse({ErrorCode::kCorrupt, concat(header.status().message(), ", in ", path)});
  file.header_ = *std::move(header);
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) ::close(fd_);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  for (const SafetensorsEntry& entry : header_.entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

Status SafetensorsFile::read(const SafetensorsEntry& entry, std::span<std::byte> to) const {
  if (to.size() != entry.size_bytes()) {
    return {ErrorCode::kInternal, concat("[safetensors] got ", to.size(), " bytes for tensor '", entry.name,
                                         "' of ", entry.size_bytes())};
  }
  return read_at(fd_, path_, data_begin_ + entry.begin, to);
}

Result<uint64_t> write_safetensors(const std::string& path, std::span<const SafetensorsTensor> tensors,
                                   const std::map<std::string, std::string>& metadata) {
  std::vector<const SafetensorsTensor*> order;
  for (const SafetensorsTensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const SafetensorsTensor* a, const SafetensorsTensor* b) {
    return dtype_size(a->dtype) > dtype_size(b->dtype);
  });
  Json::Object header;
  if (!metadata.empty()) {
    Json::Object values;
    for (const auto& [key, text] : metadata) values.emplace_back(key, text);
    header.emplace_back("__metadata__", std::move(values));
  }
  int64_t offset = 0;
  for (const SafetensorsTensor* tensor : order) {
    Json::Array shape(tensor->shape.begin(), tensor->shape.end());
    const auto end = offset + static_cast<int64_t>(tensor->bytes.size());
    header.emplace_back(tensor->name, Json::object({{"dtype", type_text(tensor->dtype)},
                                                    {"shape", std::move(shape)},
                                                    {"data_offsets", Json(Json::Array{offset, end})}}));
    offset = end;
  }
  std::string json = Json(std::move(header)).dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  // A reader must accept what is written: this also finds names given twice and wrong sizes.
  if (Result<SafetensorsHeader> check = parse_safetensors_header(json, static_cast<uint64_t>(offset));
      !check.ok()) {
    return Status(ErrorCode::kInternal, concat(check.status().message(), ", while writing ", path));
  }
  DLPIPE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  const uint64_t header_bytes = json.size();
  DLPIPE_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(&header_bytes, 1))));
  DLPIPE_RETURN_IF_ERROR(file.append(json));
  for (const SafetensorsTensor* tensor : order) DLPIPE_RETURN_IF_ERROR(file.append(tensor->bytes));
  DLPIPE_RETURN_IF_ERROR(file.commit());
  return sizeof header_bytes + header_bytes + static_cast<uint64_t>(offset);
}

}  // namespace dlpipe::formats

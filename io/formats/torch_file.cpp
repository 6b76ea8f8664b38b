#include "dlpipe/io/formats/torch_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/crc32c.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/foreign_weights.h"

namespace dlpipe::formats {

namespace {

using namespace std::string_view_literals;
using Kind = TorchPickle::Kind;
using Value = TorchPickle::Value;

constexpr uint64_t kMostDirectory = uint64_t{16} << 20;  // of a zip archive

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The numbers of a tuple, as sizes and strides are; nothing where it isn't one.
std::optional<std::vector<int64_t>> whole_numbers(const TorchPickle& pickle, const Value& tuple) {
  constexpr size_t kMostAxes = 64;
  if ((tuple.kind != Kind::kTuple && tuple.kind != Kind::kList) || tuple.items.size() > kMostAxes)
    return std::nullopt;
  std::vector<int64_t> numbers;
  for (const TorchPickle::Id id : tuple.items) {
    if (pickle[id].kind != Kind::kInt || pickle[id].number < 0) return std::nullopt;
    numbers.push_back(pickle[id].number);
  }
  return numbers;
}

bool holds_tensors(const TorchPickle& pickle, const Value& dict) {
  for (size_t i = 1; dict.kind == Kind::kDict && i < dict.items.size(); i += 2) {
    if (pickle[dict.items[i]].kind == Kind::kTensor) return true;
  }
  return false;
}

}  // namespace

bool begins_as_torch(std::string_view begin) {
  if (begin.starts_with("PK\3\4"sv)) return true;
  // A pickle of its magic number first. The length of a safetensors header can look the same for two bytes.
  return begin.starts_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."sv);
}

Status TorchFile::corrupt(std::string_view what) const {
  return {ErrorCode::kCorrupt, concat("[weights] ", path_, ": ", what, "; get it anew")};
}

Status TorchFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(file_.fd(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return status_from_errno("weights", concat("cannot read ", path_), errno);
    if (got == 0) return corrupt("it became shorter while it was read");
    to = to.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Result<std::string> TorchFile::read_text(uint64_t begin, uint64_t count) const {
  const uint64_t size = file_.stamp().size_bytes;
  if (begin > size || count > size - begin) return corrupt("it is cut short");
  std::string text(count, '\0');
  DLPIPE_RETURN_IF_ERROR(read_at(begin, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<TorchFile> TorchFile::open(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(RegularFile opened, RegularFile::open("weights", path));
  const uint64_t size = opened.stamp().size_bytes;
  TorchFile file(path, std::move(opened));
  constexpr uint64_t kBegin = 64;
  DLPIPE_ASSIGN_OR_RETURN(const std::string begin, file.read_text(0, std::min(size, kBegin)));
  const Status status = begin.starts_with("PK"sv) ? file.open_zip() : file.open_pickles();
  if (status.ok()) return file;
  if (status.code() != ErrorCode::kUnsupported && status.code() != ErrorCode::kCorrupt) return status;
  const bool names_it = status.message().find(printable(path)) != std::string::npos;
  return Status(status.code(), names_it ? status.message()
                                        : concat("[weights] ", path, ": ", without_area(status.message())));
}

/// Where the directory of a zip archive is: said at its end, and in large archives by another record before that.
Result<TorchFile::Storage> TorchFile::zip_directory() const {
  const uint64_t size = file_.stamp().size_bytes;
  constexpr uint64_t kEndRecord = 22, kMostComment = 65535, kLocator = 20, kEnd64 = 56;
  const uint64_t tail_bytes = std::min(size, kEndRecord + kMostComment + kLocator);
  DLPIPE_ASSIGN_OR_RETURN(const std::string tail, read_text(size - tail_bytes, tail_bytes));
  const size_t end = tail.rfind("PK\5\6"sv);
  if (end == std::string::npos || tail.size() - end < kEndRecord)
    return corrupt("the zip archive is cut short");
  Storage directory = {load_le<uint32_t>(bytes_of(tail), end + 16),
                       load_le<uint32_t>(bytes_of(tail), end + 12)};
  if (end >= kLocator && std::string_view(tail).substr(end - kLocator).starts_with("PK\6\7"sv)) {
    const auto at = load_le<uint64_t>(bytes_of(tail), end - kLocator + 8);
    DLPIPE_ASSIGN_OR_RETURN(const std::string end64, read_text(at, kEnd64));
    if (!end64.starts_with("PK\6\6"sv)) return corrupt("the zip archive's end is damaged");
    directory = {load_le<uint64_t>(bytes_of(end64), 48), load_le<uint64_t>(bytes_of(end64), 40)};
  }
  if (directory.bytes > kMostDirectory) return corrupt("the zip archive claims too many members");
  return directory;
}

/// Sizes and places that don't fit into 32 bits stand in the field of zip64, in this order.
static void take_zip64(std::string_view extra, uint64_t& stored, uint64_t packed, uint64_t& local) {
  constexpr size_t kHead = 4, kValue = 8;
  constexpr uint64_t kElsewhere = 0xffffffff;
  while (extra.size() >= kHead) {
    const auto id = load_le<uint16_t>(bytes_of(extra), 0);
    const size_t length = std::min<size_t>(load_le<uint16_t>(bytes_of(extra), 2), extra.size() - kHead);
    std::string_view values = extra.substr(kHead, length);
    extra.remove_prefix(kHead + length);
    if (id != 1) continue;
    for (uint64_t* const value : {&stored, &packed, &local}) {
      if (*value != kElsewhere || values.size() < kValue) continue;
      *value = load_le<uint64_t>(bytes_of(values), 0);
      values.remove_prefix(kValue);
    }
  }
}

Result<TorchFile::Members> TorchFile::zip_members(std::string_view directory) const {
  Members members;
  constexpr size_t kEntry = 46;
  while (directory.size() >= kEntry && directory.starts_with("PK\1\2"sv)) {
    const auto field = [&](size_t offset) { return load_le<uint16_t>(bytes_of(directory), offset); };
    const auto field32 = [&](size_t offset) -> uint64_t {
      return load_le<uint32_t>(bytes_of(directory), offset);
    };
    const size_t name_bytes = field(28), extra_bytes = field(30), comment_bytes = field(32);
    if (directory.size() - kEntry < name_bytes + extra_bytes + comment_bytes)
      return corrupt("the zip archive's directory is damaged");
    uint64_t stored = field32(24), local = field32(42);
    take_zip64(directory.substr(kEntry + name_bytes, extra_bytes), stored, field32(20), local);
    const bool is_first =
        members
            .try_emplace(std::string(directory.substr(kEntry, name_bytes)),
                         Member{local, stored, load_le<uint32_t>(bytes_of(directory), 16), field(10) != 0})
            .second;
    if (!is_first) return corrupt("the zip archive has two members of one name");
    directory.remove_prefix(kEntry + name_bytes + extra_bytes + comment_bytes);
  }
  return members;
}

/// Where a member's bytes are, behind its own header.
Result<TorchFile::Storage> TorchFile::data_of(const Member& member) const {
  if (member.is_compressed)
    return Status(
        ErrorCode::kUnsupported,
        "[weights] the zip archive is compressed, which torch.save never does; pack it anew without");
  const uint64_t size = file_.stamp().size_bytes;
  constexpr uint64_t kHeader = 30;
  DLPIPE_ASSIGN_OR_RETURN(const std::string head, read_text(member.header, kHeader));
  if (!head.starts_with("PK\3\4"sv))
    return corrupt("a member of the zip archive isn't where its directory says");
  const uint64_t begin =
      member.header + kHeader + load_le<uint16_t>(bytes_of(head), 26) + load_le<uint16_t>(bytes_of(head), 28);
  if (begin > size || member.bytes > size - begin) return corrupt("a member of the zip archive is cut short");
  return Storage{begin, member.bytes, member.checksum};
}

/// Compares a storage with its checksum, once.
Status TorchFile::check(const Storage& storage) const {
  const std::atomic_ref<bool> is_checked(storage.is_checked);
  if (storage.checksum == 0 || is_checked.load()) return {};
  constexpr uint64_t kPiece = 1 << 20;
  std::vector<std::byte> piece(std::min(storage.bytes, kPiece));
  uint32_t checksum = 0;
  for (uint64_t at = 0; at < storage.bytes; at += piece.size()) {
    piece.resize(std::min(kPiece, storage.bytes - at));
    DLPIPE_RETURN_IF_ERROR(read_at(storage.begin + at, piece));
    checksum = zip_crc32(piece, checksum);
  }
  if (checksum != storage.checksum) return corrupt("a member of the zip archive differs from its checksum");
  is_checked.store(true);
  return {};
}

Status TorchFile::open_zip() {
  DLPIPE_ASSIGN_OR_RETURN(const Storage directory, zip_directory());
  DLPIPE_ASSIGN_OR_RETURN(const std::string entries, read_text(directory.begin, directory.bytes));
  DLPIPE_ASSIGN_OR_RETURN(const Members members, zip_members(entries));
  constexpr std::string_view kPickle = "/data.pkl";
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& member) {
    return std::string_view(member.first).ends_with(kPickle);
  });
  const std::string root =
      found == members.end() ? "" : found->first.substr(0, found->first.size() - kPickle.size());
  if (found == members.end() || members.contains(root + "/constants.pkl"))  // TorchScript has these
    return {ErrorCode::kUnsupported,
            concat("[weights] ", path_, " is ", describe_foreign_weights(path_, "PK\3\4", entries))};
  if (const auto order = members.find(root + "/byteorder"); order != members.end()) {
    DLPIPE_ASSIGN_OR_RETURN(const Storage place, data_of(order->second));
    DLPIPE_ASSIGN_OR_RETURN(const std::string word,
                            read_text(place.begin, std::min<uint64_t>(place.bytes, 8)));
    if (word != "little") return {ErrorCode::kUnsupported, "[weights] its numbers are big-endian"};
  }
  const std::string data = root + "/data/";
  for (auto member = members.lower_bound(data); member != members.end() && member->first.starts_with(data);
       ++member) {
    DLPIPE_ASSIGN_OR_RETURN(storages_[member->first.substr(data.size())], data_of(member->second));
  }
  DLPIPE_ASSIGN_OR_RETURN(const Storage place, data_of(found->second));
  if (place.bytes > TorchPickle::kMostBytes)
    return {ErrorCode::kUnsupported, "[weights] its pickle is larger than 64 MiB"};
  DLPIPE_RETURN_IF_ERROR(check(place));
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text(place.begin, place.bytes));
  DLPIPE_ASSIGN_OR_RETURN(const TorchPickle pickle, TorchPickle::parse(text));
  return add_state_dict(pickle);
}

/// Pickles behind each other: a magic number, the version, what the machine was like, the tensors' names, the keys of their storages;
/// then the storages in this order, each behind the number of its elements. The numbers are little-endian whatever the machine was
/// like (PyTorch's THPStorage_writeFileRaw), so its `little_endian` doesn't matter.
Status TorchFile::open_pickles() {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text(0, std::min<uint64_t>(file_.stamp().size_bytes,
                                                                                  TorchPickle::kMostBytes)));
  if (!begins_as_torch(text))
    return {ErrorCode::kUnsupported, "[weights] it is a Python pickle and none of torch.save's"};
  std::string_view rest = text;
  constexpr int kBefore = 3;
  for (int i = 0; i < kBefore; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(const TorchPickle before, TorchPickle::parse(rest));
    rest.remove_prefix(before.size());
  }
  DLPIPE_ASSIGN_OR_RETURN(const TorchPickle pickle, TorchPickle::parse(rest));
  rest.remove_prefix(pickle.size());
  DLPIPE_RETURN_IF_ERROR(find_numbers(text, text.size() - rest.size(), pickle));
  return add_state_dict(pickle);
}

Status TorchFile::find_numbers(std::string_view text, size_t at, const TorchPickle& pickle) {
  DLPIPE_ASSIGN_OR_RETURN(const TorchPickle keys, TorchPickle::parse(text.substr(at)));
  if (keys.root().kind != Kind::kList) return corrupt("the list of its storages is damaged");
  std::map<std::string_view, uint64_t> element_bytes;  // of each storage that a tensor names
  for (TorchPickle::Id id = 0; id < pickle.count(); ++id) {
    const Value& storage = pickle[id];
    if (storage.kind != Kind::kStorage) continue;
    const auto type = TorchPickle::element_type(pickle[storage.items[1]]);
    if (type) element_bytes.emplace(pickle[storage.items[2]].text, type->bytes);
  }
  const uint64_t size = file_.stamp().size_bytes;
  uint64_t place = at + keys.size();
  for (const TorchPickle::Id id : keys.root().items) {
    const auto known = element_bytes.find(keys[id].text);
    if (known == element_bytes.end()) return corrupt("it holds a storage that no tensor names");
    DLPIPE_ASSIGN_OR_RETURN(const std::string head, read_text(place, sizeof(uint64_t)));
    const auto elements = load_le<uint64_t>(bytes_of(head), 0);
    place += sizeof(uint64_t);
    if (elements > (size - place) / known->second) return corrupt("it is cut short");
    storages_[std::string(known->first)] = {place, elements * known->second};
    place += elements * known->second;
  }
  return {};
}

Status TorchFile::add_state_dict(const TorchPickle& pickle) {
  const Value* dict = &pickle.root();
  constexpr std::array kParts = {"state_dict_ema", "model_ema",        "ema_state_dict", "ema",
                                 "state_dict",     "model_state_dict", "model",          "net",
                                 "network",        "weights"};
  // First the parts: beside them a training's file may hold tensors of its own, such as the best accuracy.
  const auto part = std::find_if(kParts.begin(), kParts.end(), [&](const char* name) {
    const Value* const found = pickle.find(pickle.root(), name);
    return found != nullptr && holds_tensors(pickle, *found);
  });
  if (part == kParts.end() && !holds_tensors(pickle, *dict))
    return {ErrorCode::kUnsupported,
            "[weights] it holds no state dict; save one: torch.save(model.state_dict(), FILE)"};
  if (part != kParts.end()) {
    part_ = *part;
    dict = pickle.find(pickle.root(), part_);
  }
  std::map<std::string_view, size_t> last;  // where each name stands for the last time
  for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    if (const Value& name = pickle[dict->items[i]]; name.kind == Kind::kText) last[name.text] = i;
  }
  for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    const Value& name = pickle[dict->items[i]];
    const Value& tensor = pickle[dict->items[i + 1]];
    if (name.kind != Kind::kText || tensor.kind != Kind::kTensor || last[name.text] != i) continue;
    if (name.text == "n_averaged") continue;  // how many weights torch.optim.swa_utils has averaged
    DLPIPE_RETURN_IF_ERROR(add_tensor(pickle, name.text, tensor));
  }
  return {};
}

Status TorchFile::add_tensor(const TorchPickle& pickle, std::string_view name, const Value& tensor) {
  const auto wrong = [&](std::string_view what) {
    return corrupt(concat("tensor ", in_quotes(name), " ", what));
  };
  const Value& storage = pickle[tensor.items[0]];
  const Value& offset = pickle[tensor.items[1]];
  const auto sizes = whole_numbers(pickle, pickle[tensor.items[2]]);
  const auto strides = whole_numbers(pickle, pickle[tensor.items[3]]);
  if (storage.kind != Kind::kStorage || offset.kind != Kind::kInt || offset.number < 0 || !sizes ||
      !strides || sizes->size() != strides->size())
    return wrong("is described wrongly");
  const auto type = TorchPickle::element_type(pickle[storage.items[1]]);
  const auto place = storages_.find(pickle[storage.items[2]].text);
  if (!type || place == storages_.end()) return wrong("has no storage in the file");
  const uint64_t stored = place->second.bytes / type->bytes;
  uint64_t elements = 1, last = static_cast<uint64_t>(offset.number);
  bool overflows = false;
  for (size_t i = 0; i < sizes->size(); ++i) {
    const auto axis = static_cast<uint64_t>((*sizes)[i]);
    uint64_t reach = 0;
    overflows =
        overflows || __builtin_mul_overflow(elements, axis, &elements) ||
        __builtin_mul_overflow(axis == 0 ? 0 : axis - 1, static_cast<uint64_t>((*strides)[i]), &reach) ||
        __builtin_add_overflow(last, reach, &last);
  }
  if (overflows || (elements > 0 && last >= stored)) return wrong("is larger than its storage");
  if (elements > stored)
    return Status(ErrorCode::kUnsupported, concat("[weights] tensor ", in_quotes(name),
                                                  " repeats elements of a smaller storage, as expand() does, "
                                                  "and is not read; save its contiguous()"));
  constexpr uint64_t kShares = 4, kSmall = 1 << 20;
  const uint64_t bytes = elements * type->bytes;
  if (total_ + bytes > kShares * file_.stamp().size_bytes + kSmall)
    return {ErrorCode::kUnsupported,
            concat("[weights] its tensors are more than ", kShares, " times as large as the file")};
  SafetensorsEntry entry;
  entry.name = std::string(name);
  entry.dtype_text = std::string(type->text);
  entry.dtype = type->dtype;
  entry.shape = *sizes;
  entry.begin = total_;
  entry.end = total_ += bytes;
  entries_.push_back(std::move(entry));
  places_.push_back({&place->second, static_cast<uint64_t>(offset.number), type->bytes, *strides});
  return {};
}

Status TorchFile::read(const SafetensorsEntry& entry, std::span<std::byte> to) const {
  auto found =
      std::lower_bound(entries_.begin(), entries_.end(), entry.begin,
                       [](const SafetensorsEntry& own, uint64_t begin) { return own.begin < begin; });
  while (found != entries_.end() && found->name != entry.name) ++found;  // behind others without an element
  if (found == entries_.end() || to.size() != entry.size_bytes())
    return {ErrorCode::kInternal,
            concat("[weights] ", to.size(), " bytes given for tensor ", in_quotes(entry.name))};
  if (to.empty()) return {};
  const Place& place = places_[static_cast<size_t>(found - entries_.begin())];
  DLPIPE_RETURN_IF_ERROR(check(*place.storage));
  const uint64_t begin = place.storage->begin + place.first * place.bytes;
  size_t axes = entry.shape.size();  // outside the runs of elements that lie behind each other
  int64_t run = 1;
  for (; axes > 0 && (entry.shape[axes - 1] == 1 || place.strides[axes - 1] == run); --axes)
    run *= entry.shape[axes - 1];
  const uint64_t run_bytes = static_cast<uint64_t>(run) * place.bytes;
  uint64_t span_bytes = run_bytes;  // from the first element to the last
  for (size_t i = 0; i < axes; ++i)
    span_bytes += static_cast<uint64_t>((entry.shape[i] - 1) * place.strides[i]) * place.bytes;
  // Whole, where the elements lie close enough; else run by run.
  constexpr uint64_t kShares = 4, kSmall = 1 << 20;
  std::vector<std::byte> stored(axes > 0 && span_bytes <= kShares * to.size() + kSmall ? span_bytes : 0);
  DLPIPE_RETURN_IF_ERROR(read_at(begin, stored));
  std::vector<int64_t> index(axes);
  for (size_t at = 0; at < to.size(); at += run_bytes) {
    uint64_t from = 0;
    for (size_t i = 0; i < axes; ++i)
      from += static_cast<uint64_t>(index[i] * place.strides[i]) * place.bytes;
    const std::span<std::byte> part = to.subspan(at, run_bytes);
    if (stored.empty())
      DLPIPE_RETURN_IF_ERROR(read_at(begin + from, part));
    else
      std::copy_n(stored.begin() + static_cast<ptrdiff_t>(from), run_bytes, part.begin());
    for (size_t i = axes; i-- > 0;) {
      if (++index[i] < entry.shape[i]) break;
      index[i] = 0;
    }
  }
  return {};
}

}  // namespace dlpipe::formats

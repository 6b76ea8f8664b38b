#include "io/formats/torch_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/formats/weights_file.h"

namespace dlpipe::formats {

namespace {

enum class Meaning : uint8_t { kDict, kTensor, kFirstArgument, kNothing, kStorageType };

/// A name in Python, and the result of calling it.
struct Name {
  std::string_view module, name;
  Meaning meaning = Meaning::kNothing;
  TorchPickle::ElementType type = {};
};

constexpr std::array<Name, 32> kPickleNames = {{
    {"collections", "OrderedDict", Meaning::kDict},
    {"torch._utils", "_rebuild_tensor_v2", Meaning::kTensor},
    {"torch._utils", "_rebuild_tensor", Meaning::kTensor},
    {"torch._utils", "_rebuild_parameter", Meaning::kFirstArgument},
    {"torch", "Size", Meaning::kFirstArgument},
    {"torch", "device", Meaning::kNothing},
    {"torch", "float32"},
    {"torch", "float64"},
    {"torch", "float16"},
    {"torch", "bfloat16"},
    {"torch", "int64"},
    {"torch", "int32"},
    {"torch", "int16"},
    {"torch", "int8"},
    {"torch", "uint8"},
    {"torch", "bool"},
    {"torch", "DoubleStorage", Meaning::kStorageType, {"F64", 8, DType::kF64}},
    {"torch", "FloatStorage", Meaning::kStorageType, {"F32", 4, DType::kF32}},
    {"torch", "HalfStorage", Meaning::kStorageType, {"F16", 2, DType::kF16}},
    {"torch", "BFloat16Storage", Meaning::kStorageType, {"BF16", 2, DType::kBF16}},
    {"torch", "LongStorage", Meaning::kStorageType, {"I64", 8, DType::kI64}},
    {"torch", "IntStorage", Meaning::kStorageType, {"I32", 4, DType::kI32}},
    {"torch", "ShortStorage", Meaning::kStorageType, {"I16", 2, {}}},
    {"torch", "CharStorage", Meaning::kStorageType, {"I8", 1, {}}},
    {"torch", "ByteStorage", Meaning::kStorageType, {"U8", 1, DType::kU8}},
    {"torch", "BoolStorage", Meaning::kStorageType, {"BOOL", 1, {}}},
    {"torch", "ComplexFloatStorage", Meaning::kStorageType, {"C64", 8, {}}},
    {"__builtin__", "set"},
    {"builtins", "set"},
    {"__builtin__", "complex"},
    {"builtins", "complex"},
    {"torch._utils", "_rebuild_parameter_with_state", Meaning::kFirstArgument},
}};

Status corrupt_pickle(std::string_view what) {
  return {ErrorCode::kCorrupt, concat("[weights] the pickle ", what)};
}

}  // namespace

/// Executes the opcodes (pickletools.py says what each does) on a stack of values.
class TorchUnpickler {
 public:
  explicit TorchUnpickler(std::string_view bytes) : bytes_(bytes) {}
  Result<TorchPickle> run();

 private:
  using Id = TorchPickle::Id;
  using Kind = TorchPickle::Kind;
  using Value = TorchPickle::Value;
  static constexpr Id kMark = 0xffffffff;

  Result<std::string_view> take(uint64_t count) {
    if (count > bytes_.size() - at_) return corrupt_pickle("is truncated");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  Result<uint64_t> number(size_t bytes) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string_view taken, take(bytes));
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(taken[i])) << (8 * i);
    return value;
  }
  Result<std::string_view> line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return corrupt_pickle("is truncated");
    const std::string_view taken = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return taken;
  }

  Status push(Value value) {
    if (pickle_.values_.size() == TorchPickle::kMostValues)
      return {ErrorCode::kUnsupported, concat("[weights] the pickle holds more than ",
                                              human_count(TorchPickle::kMostValues), " values")};
    stack_.push_back(static_cast<Id>(pickle_.values_.size()));
    pickle_.values_.push_back(std::move(value));
    return {};
  }
  Status push_text(size_t bytes_of_length) {
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t length, number(bytes_of_length));
    DLPIPE_ASSIGN_OR_RETURN(const std::string_view text, take(length));
    return push({Kind::kText, 0, text});
  }
  Status push_int(size_t bytes, bool is_signed) {
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t value, number(bytes));
    const int unused = static_cast<int>(64 - 8 * bytes);
    const auto extended = static_cast<int64_t>(value << unused) >> unused;
    return push({Kind::kInt, is_signed && bytes > 0 ? extended : static_cast<int64_t>(value), {}});
  }
  /// A whole number of any length; numbers beyond 64 bits are not sizes of tensors.
  Status push_long(size_t bytes_of_length) {
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t length, number(bytes_of_length));
    if (length == 0) return push({Kind::kInt, 0, {}});
    if (length <= 8) return push_int(length, true);
    DLPIPE_RETURN_IF_ERROR(take(length).status());
    return push({});
  }
  Status push_name(std::string_view module, std::string_view name) {
    const auto found = std::find_if(kPickleNames.begin(), kPickleNames.end(), [&](const Name& known) {
      return known.module == module && known.name == name;
    });
    if (found == kPickleNames.end())
      return {
          ErrorCode::kUnsupported,
          concat("[weights] it holds ", in_quotes(concat(module, ".", name)),
                 ", which is not a tensor, and dlpipe does not run code from a file; save only the tensors: "
                 "torch.save(model.state_dict(), FILE)")};
    return push({Kind::kName, found - kPickleNames.begin(), {}});
  }

  Result<Id> pop() {
    if (stack_.empty() || stack_.back() == kMark) return corrupt_pickle("pops from an empty stack");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  /// The values above the last mark, which is removed, too.
  Result<std::vector<Id>> pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) return corrupt_pickle("has no mark where one is needed");
    std::vector<Id> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }
  Status push_tuple(size_t count) {
    std::vector<Id> items(count);
    for (size_t i = count; i-- > 0;) {
      DLPIPE_ASSIGN_OR_RETURN(items[i], pop());
    }
    return push({Kind::kTuple, 0, {}, std::move(items)});
  }
  Status add_to(Kind kind, const std::vector<Id>& items) {
    if (stack_.empty() || stack_.back() == kMark) return corrupt_pickle("adds to nothing");
    Value& to = pickle_.values_[stack_.back()];
    if (to.kind == Kind::kOther) return {};  // such as a set
    if (to.kind != kind || (kind == Kind::kDict && items.size() % 2 != 0))
      return corrupt_pickle("adds to something that is not a list or dict");
    to.items.insert(to.items.end(), items.begin(), items.end());
    return {};
  }
  Status memoize(uint64_t place) {
    if (stack_.empty() || stack_.back() == kMark) return corrupt_pickle("stores nothing in its memo");
    if (place >= TorchPickle::kMostValues) return corrupt_pickle("has too large a memo");
    if (memo_.size() <= place) memo_.resize(place + 1, kMark);
    memo_[place] = stack_.back();
    return {};
  }
  Status push_kept(uint64_t place) {
    if (place >= memo_.size() || memo_[place] == kMark)
      return corrupt_pickle("reads a missing entry of its memo");
    if (++pushed_again_ > TorchPickle::kMostValues) return corrupt_pickle("repeats its values too often");
    stack_.push_back(memo_[place]);
    return {};
  }
  Status reduce();
  Status push_storage();
  Status execute(unsigned char opcode);

  std::string_view bytes_;
  size_t at_ = 0;
  TorchPickle pickle_;
  std::vector<Id> stack_;
  std::vector<Id> memo_;
  size_t pushed_again_ = 0;
};

Status TorchUnpickler::reduce() {
  DLPIPE_ASSIGN_OR_RETURN(const Id arguments, pop());
  DLPIPE_ASSIGN_OR_RETURN(const Id name, pop());
  const Value& called = pickle_.values_[name];
  const Value& given = pickle_.values_[arguments];
  if (called.kind != Kind::kName || given.kind != Kind::kTuple)
    return corrupt_pickle("calls something that can't be called");
  switch (kPickleNames[static_cast<size_t>(called.number)].meaning) {
    case Meaning::kDict:
      if (!given.items.empty()) return corrupt_pickle("builds a dict from something");
      return push({Kind::kDict, 0, {}});
    case Meaning::kTensor:
      if (given.items.size() < 4) return corrupt_pickle("rebuilds a tensor from too few arguments");
      // The seventh argument says that the numbers are negated or conjugated when they are read.
      if (given.items.size() > 6 && !pickle_.values_[given.items[6]].items.empty())
        return {ErrorCode::kUnsupported,
                "[weights] it holds a lazily negated or conjugated tensor; save "
                "tensor.resolve_neg().resolve_conj()"};
      return push({Kind::kTensor, 0, {}, {given.items.begin(), given.items.begin() + 4}});
    case Meaning::kFirstArgument:
      if (given.items.empty()) return corrupt_pickle("rebuilds a value from nothing");
      stack_.push_back(given.items.front());
      return {};
    case Meaning::kNothing:
    case Meaning::kStorageType:
      return push({});
  }
  return {};
}

Status TorchUnpickler::push_storage() {
  DLPIPE_ASSIGN_OR_RETURN(const Id id, pop());
  const Value& named = pickle_.values_[id];
  constexpr size_t kItems = 5;  // "storage", its type, key, device, elements
  if (named.kind != Kind::kTuple || named.items.size() < kItems)
    return corrupt_pickle("has a persistent id that is not a storage");
  if (named.items.size() > kItems && pickle_.values_[named.items[kItems]].kind == Kind::kTuple)
    return {ErrorCode::kUnsupported, "[weights] the pickle has views of storages, as PyTorch 0.1 wrote them"};
  return push({Kind::kStorage, 0, {}, {named.items.begin(), named.items.begin() + kItems}});
}

Status TorchUnpickler::execute(unsigned char opcode) {
  switch (opcode) {
    case 0x80:  // PROTO
      return take(1).status();
    case 0x95:  // FRAME
      return take(8).status();
    case '(':
      stack_.push_back(kMark);
      return {};
    case '0':
      return pop().status();
    case 'N':  // None, True, False
    case 0x88:
    case 0x89:
      return push({});
    case 'J':
      return push_int(4, true);
    case 'K':
      return push_int(1, false);
    case 'M':
      return push_int(2, false);
    case 0x8a:
      return push_long(1);
    case 0x8b:
      return push_long(4);
    case 'G':
      DLPIPE_RETURN_IF_ERROR(take(8).status());
      return push({});
    case 'X':  // texts of Python 3, then of Python 2, then bytes
    case 'T':
    case 'B':
      return push_text(4);
    case 0x8c:
    case 'U':
    case 'C':
      return push_text(1);
    case 0x8d:
      return push_text(8);
    case ')':
      return push_tuple(0);
    case 0x85:
      return push_tuple(1);
    case 0x86:
      return push_tuple(2);
    case 0x87:
      return push_tuple(3);
    case 't': {
      DLPIPE_ASSIGN_OR_RETURN(std::vector<Id> items, pop_to_mark());
      return push({Kind::kTuple, 0, {}, std::move(items)});
    }
    case ']':
      return push({Kind::kList, 0, {}});
    case '}':
      return push({Kind::kDict, 0, {}});
    case 0x8f:  // a set
      return push({});
    case 'a': {
      DLPIPE_ASSIGN_OR_RETURN(const Id item, pop());
      return add_to(Kind::kList, {item});
    }
    case 'e':
    case 0x90: {
      DLPIPE_ASSIGN_OR_RETURN(const std::vector<Id> items, pop_to_mark());
      return add_to(Kind::kList, items);
    }
    case 's': {
      DLPIPE_ASSIGN_OR_RETURN(const Id value, pop());
      DLPIPE_ASSIGN_OR_RETURN(const Id key, pop());
      return add_to(Kind::kDict, {key, value});
    }
    case 'u': {
      DLPIPE_ASSIGN_OR_RETURN(const std::vector<Id> items, pop_to_mark());
      return add_to(Kind::kDict, items);
    }
    case 'b':  // attributes, such as a state dict's _metadata: not needed
      return pop().status();
    case 'q': {
      DLPIPE_ASSIGN_OR_RETURN(const uint64_t place, number(1));
      return memoize(place);
    }
    case 'r': {
      DLPIPE_ASSIGN_OR_RETURN(const uint64_t place, number(4));
      return memoize(place);
    }
    case 0x94:
      return memoize(memo_.size());
    case 'h': {
      DLPIPE_ASSIGN_OR_RETURN(const uint64_t place, number(1));
      return push_kept(place);
    }
    case 'j': {
      DLPIPE_ASSIGN_OR_RETURN(const uint64_t place, number(4));
      return push_kept(place);
    }
    case 'c': {
      DLPIPE_ASSIGN_OR_RETURN(const std::string_view module, line());
      DLPIPE_ASSIGN_OR_RETURN(const std::string_view name, line());
      return push_name(module, name);
    }
    case 0x93: {
      DLPIPE_ASSIGN_OR_RETURN(const Id name, pop());
      DLPIPE_ASSIGN_OR_RETURN(const Id module, pop());
      return push_name(pickle_.values_[module].text, pickle_.values_[name].text);
    }
    case 'Q':
      return push_storage();
    case 'R':
    case 0x81:  // NEWOBJ
      return reduce();
    default:
      return {ErrorCode::kUnsupported,
              concat("[weights] the pickle does something that tensors do not need (opcode ", int{opcode},
                     " at byte ", at_ - 1, "); save only the tensors: torch.save(model.state_dict(), FILE)")};
  }
}

Result<TorchPickle> TorchUnpickler::run() {
  if (bytes_.size() > TorchPickle::kMostBytes) bytes_ = bytes_.substr(0, TorchPickle::kMostBytes);
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string_view opcode, take(1));
    if (opcode == ".") break;
    DLPIPE_RETURN_IF_ERROR(execute(static_cast<unsigned char>(opcode[0])));
    if (stack_.size() > TorchPickle::kMostValues) return corrupt_pickle("stacks too many values");
  }
  DLPIPE_ASSIGN_OR_RETURN(pickle_.root_, pop());
  pickle_.size_ = at_;
  return std::move(pickle_);
}

Result<TorchPickle> TorchPickle::parse(std::string_view bytes) {
  return TorchUnpickler(bytes).run();
}

const TorchPickle::Value* TorchPickle::find(const Value& dict, std::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  const Value* found = nullptr;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const Value& name = values_[dict.items[i]];
    if (name.kind == Kind::kText && name.text == key) found = &values_[dict.items[i + 1]];
  }
  return found;
}

std::optional<TorchPickle::ElementType> TorchPickle::element_type(const Value& name) {
  if (name.kind != Kind::kName) return std::nullopt;
  const Name& known = kPickleNames[static_cast<size_t>(name.number)];
  if (known.meaning != Meaning::kStorageType) return std::nullopt;
  return known.type;
}

namespace {

using namespace std::string_view_literals;
using Kind = TorchPickle::Kind;
using Value = TorchPickle::Value;

constexpr uint64_t kMostDirectory = uint64_t{16} << 20;  // of a zip archive

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The numbers of a tuple, such as sizes and strides; nullopt if it is not one.
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
  // Begins with a pickle of its magic number. The length of a safetensors header can look the same for two bytes.
  return begin.starts_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."sv);
}

Status TorchFile::corrupt(std::string_view what) const {
  return {ErrorCode::kCorrupt, concat("[weights] ", path_, ": ", what, "; get it again")};
}

Status TorchFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(file_.fd(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return status_from_errno("weights", concat("cannot read ", path_), errno);
    if (got == 0) return corrupt("it shrank while it was being read");
    to = to.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Result<std::string> TorchFile::read_text(uint64_t begin, uint64_t count) const {
  const uint64_t size = file_.stamp().size_bytes;
  if (begin > size || count > size - begin) return corrupt("it is truncated");
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

/// The position of a zip archive's directory. It is stored in the archive's last record, or in large archives in one before it.
Result<TorchFile::Storage> TorchFile::zip_directory() const {
  const uint64_t size = file_.stamp().size_bytes;
  constexpr uint64_t kEndRecord = 22, kMostComment = 65535, kLocator = 20, kEnd64 = 56;
  const uint64_t tail_bytes = std::min(size, kEndRecord + kMostComment + kLocator);
  DLPIPE_ASSIGN_OR_RETURN(const std::string tail, read_text(size - tail_bytes, tail_bytes));
  const size_t end = tail.rfind("PK\5\6"sv);
  if (end == std::string::npos || tail.size() - end < kEndRecord)
    return corrupt("the zip archive is truncated");
  Storage directory = {load_le<uint32_t>(bytes_of(tail), end + 16),
                       load_le<uint32_t>(bytes_of(tail), end + 12)};
  if (end >= kLocator && std::string_view(tail).substr(end - kLocator).starts_with("PK\6\7"sv)) {
    const auto at = load_le<uint64_t>(bytes_of(tail), end - kLocator + 8);
    DLPIPE_ASSIGN_OR_RETURN(const std::string end64, read_text(at, kEnd64));
    if (!end64.starts_with("PK\6\6"sv)) return corrupt("the zip archive's end is corrupt");
    directory = {load_le<uint64_t>(bytes_of(end64), 48), load_le<uint64_t>(bytes_of(end64), 40)};
  }
  if (directory.bytes > kMostDirectory) return corrupt("the zip archive claims too many members");
  return directory;
}

/// Sizes and places that do not fit into 32 bits are in the field of zip64, in this order.
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
      return corrupt("the zip archive's directory is corrupt");
    uint64_t stored = field32(24), local = field32(42);
    take_zip64(directory.substr(kEntry + name_bytes, extra_bytes), stored, field32(20), local);
    const bool is_first =
        members
            .try_emplace(std::string(directory.substr(kEntry, name_bytes)),
                         Member{local, stored, load_le<uint32_t>(bytes_of(directory), 16), field(10) != 0})
            .second;
    if (!is_first) return corrupt("the zip archive has two members with the same name");
    directory.remove_prefix(kEntry + name_bytes + extra_bytes + comment_bytes);
  }
  return members;
}

/// The position of a member's bytes, after its own header.
Result<TorchFile::Storage> TorchFile::data_of(const Member& member) const {
  if (member.is_compressed)
    return Status(
        ErrorCode::kUnsupported,
        "[weights] the zip archive is compressed, which torch.save never does; pack it without compression");
  const uint64_t size = file_.stamp().size_bytes;
  constexpr uint64_t kHeader = 30;
  DLPIPE_ASSIGN_OR_RETURN(const std::string head, read_text(member.header, kHeader));
  if (!head.starts_with("PK\3\4"sv))
    return corrupt("a member of the zip archive is not where its directory says");
  const uint64_t begin =
      member.header + kHeader + load_le<uint16_t>(bytes_of(head), 26) + load_le<uint16_t>(bytes_of(head), 28);
  if (begin > size || member.bytes > size - begin) return corrupt("a member of the zip archive is truncated");
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
  if (checksum != storage.checksum) return corrupt("a member of the zip archive does not match its checksum");
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

/// Whether `text` begins with the five pickles of open_pickles().
static bool has_pickles(std::string_view text) {
  constexpr int kPickles = 5;
  for (int i = 0; i < kPickles; ++i) {
    const auto pickle = TorchPickle::parse(text);
    if (!pickle.ok()) return false;
    text.remove_prefix(pickle->size());
  }
  return true;
}

/// Pickles one after another: a magic number, the version, a description of the machine, the tensors' names, the keys of their
/// storages; then the storages in this order, each after the number of its elements. The numbers are little-endian on every
/// machine (PyTorch's THPStorage_writeFileRaw), so its `little_endian` does not matter.
Status TorchFile::open_pickles() {
  constexpr uint64_t kShort = 1 << 20;  // the end is only known once they are parsed, and most are shorter
  const uint64_t most = std::min<uint64_t>(file_.stamp().size_bytes, TorchPickle::kMostBytes);
  DLPIPE_ASSIGN_OR_RETURN(std::string text, read_text(0, std::min(most, kShort)));
  if (most > kShort && !has_pickles(text)) {
    DLPIPE_ASSIGN_OR_RETURN(text, read_text(0, most));
  }
  if (!begins_as_torch(text))
    return {ErrorCode::kUnsupported, "[weights] it is a Python pickle, but not one written by torch.save"};
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
  if (keys.root().kind != Kind::kList) return corrupt("the list of its storages is corrupt");
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
    if (elements > (size - place) / known->second) return corrupt("it is truncated");
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
  // Parts are tried first: next to them, a training checkpoint may hold other tensors, such as the best accuracy.
  const auto part = std::find_if(kParts.begin(), kParts.end(), [&](const char* name) {
    const Value* const found = pickle.find(pickle.root(), name);
    return found != nullptr && holds_tensors(pickle, *found);
  });
  if (part == kParts.end() && !holds_tensors(pickle, *dict))
    return {ErrorCode::kUnsupported,
            "[weights] it has no state dict; save one: torch.save(model.state_dict(), FILE)"};
  if (part != kParts.end()) {
    part_ = *part;
    dict = pickle.find(pickle.root(), part_);
  }
  std::map<std::string_view, size_t> last;  // the last value of each name: it counts, as in Python
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
    return wrong("has an invalid description");
  const auto type = TorchPickle::element_type(pickle[storage.items[1]]);
  const auto place = storages_.find(pickle[storage.items[2]].text);
  if (!type || place == storages_.end()) return wrong("has no storage in the file");
  const Value& claimed = pickle[storage.items[4]];
  uint64_t claimed_bytes = 0;
  if (claimed.kind != Kind::kInt || claimed.number < 0 ||
      __builtin_mul_overflow(static_cast<uint64_t>(claimed.number), type->bytes, &claimed_bytes) ||
      claimed_bytes != place->second.bytes)
    return wrong("has a storage whose size differs from the pickle");
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
                                                  " repeats elements of a smaller storage, like expand(), "
                                                  "which is not supported; save its contiguous()"));
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
  while (found != entries_.end() && found->name != entry.name) ++found;  // after others that have no elements
  if (found == entries_.end() || to.size() != entry.size_bytes())
    return {ErrorCode::kInternal,
            concat("[weights] got ", to.size(), " bytes for tensor ", in_quotes(entry.name))};
  if (to.empty()) return {};
  const Place& place = places_[static_cast<size_t>(found - entries_.begin())];
  DLPIPE_RETURN_IF_ERROR(check(*place.storage));
  const uint64_t begin = place.storage->begin + place.first * place.bytes;
  size_t axes = entry.shape.size();  // outside the runs of adjacent elements
  int64_t run = 1;
  for (; axes > 0 && (entry.shape[axes - 1] == 1 || place.strides[axes - 1] == run); --axes)
    run *= entry.shape[axes - 1];
  const uint64_t run_bytes = static_cast<uint64_t>(run) * place.bytes;
  uint64_t span_bytes = run_bytes;  // from the first element to the last
  for (size_t i = 0; i < axes; ++i)
    span_bytes += static_cast<uint64_t>((entry.shape[i] - 1) * place.strides[i]) * place.bytes;
  // Read as a whole if the elements are close enough; else run by run.
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

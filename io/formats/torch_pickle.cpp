#include "dlpipe/io/formats/torch_pickle.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::formats {

namespace {

enum class Meaning : uint8_t { kDict, kTensor, kFirstArgument, kNothing, kStorageType };

/// A name of Python's, and what calling it gives.
struct Name {
  std::string_view module, name;
  Meaning meaning = Meaning::kNothing;
  TorchPickle::ElementType type = {};
};

constexpr std::array<Name, 32> kNames = {{
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

Status corrupt(std::string_view what) {
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
    if (count > bytes_.size() - at_) return corrupt("is cut short");
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
    if (end == std::string_view::npos) return corrupt("is cut short");
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
  /// A whole number of any length; what 64 bits don't hold is no size of a tensor.
  Status push_long(size_t bytes_of_length) {
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t length, number(bytes_of_length));
    if (length == 0) return push({Kind::kInt, 0, {}});
    if (length <= 8) return push_int(length, true);
    DLPIPE_RETURN_IF_ERROR(take(length).status());
    return push({});
  }
  Status push_name(std::string_view module, std::string_view name) {
    const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const Name& known) {
      return known.module == module && known.name == name;
    });
    if (found == kNames.end())
      return {ErrorCode::kUnsupported,
              concat("[weights] it holds ", in_quotes(concat(module, ".", name)),
                     ", which is no tensor, and dlpipe runs no code of a file; save the tensors alone: "
                     "torch.save(model.state_dict(), FILE)")};
    return push({Kind::kName, found - kNames.begin(), {}});
  }

  Result<Id> pop() {
    if (stack_.empty() || stack_.back() == kMark) return corrupt("takes from an empty stack");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  /// What stands above the last mark, which goes, too.
  Result<std::vector<Id>> pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) return corrupt("has no mark where one is asked for");
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
    if (stack_.empty() || stack_.back() == kMark) return corrupt("adds to nothing");
    Value& to = pickle_.values_[stack_.back()];
    if (to.kind == Kind::kOther) return {};  // a set or so
    if (to.kind != kind || (kind == Kind::kDict && items.size() % 2 != 0))
      return corrupt("adds to what is no list or dict");
    to.items.insert(to.items.end(), items.begin(), items.end());
    return {};
  }
  Status memoize(uint64_t place) {
    if (stack_.empty() || stack_.back() == kMark) return corrupt("keeps nothing in its memo");
    if (place >= TorchPickle::kMostValues) return corrupt("has too large a memo");
    if (memo_.size() <= place) memo_.resize(place + 1, kMark);
    memo_[place] = stack_.back();
    return {};
  }
  Status push_kept(uint64_t place) {
    if (place >= memo_.size() || memo_[place] == kMark) return corrupt("asks its memo for what isn't there");
    if (++pushed_again_ > TorchPickle::kMostValues) return corrupt("names its values too often");
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
  if (called.kind != Kind::kName || given.kind != Kind::kTuple) return corrupt("calls what can't be called");
  switch (kNames[static_cast<size_t>(called.number)].meaning) {
    case Meaning::kDict:
      if (!given.items.empty()) return corrupt("makes a dict of something");
      return push({Kind::kDict, 0, {}});
    case Meaning::kTensor:
      if (given.items.size() < 4) return corrupt("rebuilds a tensor of too little");
      // The seventh says that the numbers are negated or conjugated when they are read.
      if (given.items.size() > 6 && !pickle_.values_[given.items[6]].items.empty())
        return {ErrorCode::kUnsupported,
                "[weights] it holds a lazily negated or conjugated tensor; save "
                "tensor.resolve_neg().resolve_conj()"};
      return push({Kind::kTensor, 0, {}, {given.items.begin(), given.items.begin() + 4}});
    case Meaning::kFirstArgument:
      if (given.items.empty()) return corrupt("rebuilds a value of nothing");
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
    return corrupt("has a persistent id that is none of a storage");
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
    case 'b':  // attributes, as a state dict's _metadata: nobody needs them
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
              concat("[weights] the pickle does what no tensor needs (opcode ", int{opcode}, " at byte ",
                     at_ - 1, "); save the tensors alone: torch.save(model.state_dict(), FILE)")};
  }
}

Result<TorchPickle> TorchUnpickler::run() {
  if (bytes_.size() > TorchPickle::kMostBytes) bytes_ = bytes_.substr(0, TorchPickle::kMostBytes);
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string_view opcode, take(1));
    if (opcode == ".") break;
    DLPIPE_RETURN_IF_ERROR(execute(static_cast<unsigned char>(opcode[0])));
    if (stack_.size() > TorchPickle::kMostValues) return corrupt("piles up too many values");
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
  const Name& known = kNames[static_cast<size_t>(name.number)];
  if (known.meaning != Meaning::kStorageType) return std::nullopt;
  return known.type;
}

}  // namespace dlpipe::formats

#include "augment/function_op.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "augment/copy.h"
#include "base/mutex.h"
#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::augment {

namespace {

constexpr const char* kCode = "code";  // the parameter that names the function

// A record can't store the function, so it is looked up by the code in the expression's text.
struct Functions {
  Mutex mutex;
  std::map<std::string, FunctionOp> by_code DLPIPE_GUARDED_BY(mutex);
  std::deque<OpRecord> records DLPIPE_GUARDED_BY(mutex);
  std::deque<std::string> texts DLPIPE_GUARDED_BY(mutex);  // that records point at
};
Functions& functions() {
  static auto* const all = new Functions;  // never destroyed: loaders may outlive main()
  return *all;
}

class FunctionCall final : public Op {
 public:
  explicit FunctionCall(OpArguments& arguments) {
    const std::string code = arguments.text(kCode);
    Functions& all = functions();
    const MutexLock lock(all.mutex);
    const auto found = all.by_code.find(code);
    if (found == all.by_code.end()) {
      arguments.refuse(misuse("augment", "no function has the code '", code, "'; leave the parameter out"));
      return;
    }
    function_ = found->second.function;
    for (const auto& [name, value] : found->second.parameters) values_.push_back(arguments.number(name));
  }

  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    draw.key = rng.next_u32();
    draw.key = draw.key << 32 | rng.next_u32();
    return {};
  }
  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch&) const override {
    if (out.stride == static_cast<ptrdiff_t>(out.width) * out.channels) {
      copy_image(in, out, false);
      call(draw, out);
      return {};
    }
    std::vector<uint8_t> dense(static_cast<size_t>(out.width) * static_cast<size_t>(out.height) *
                               static_cast<size_t>(out.channels));
    const ImageView image = {dense.data(), out.width, out.height, out.channels,
                             static_cast<ptrdiff_t>(out.width) * out.channels};
    copy_image(in, image, false);
    call(draw, image);
    copy_image(image, out, false);
    return {};
  }

 private:
  void call(const OpDraw& draw, const ImageView& image) const {
    function_(image.data, image.height, image.width, image.channels, draw.key, values_.data());
  }

  PixelFunction function_ = nullptr;
  std::vector<double> values_;
};

bool is_name(const std::string& name) {
  const auto is_inner = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::ranges::all_of(name, is_inner);
}

}  // namespace

Status add_function_op(const FunctionOp& op, OpRegistry& registry) {
  if (!is_name(op.name))
    return misuse("augment", "'", op.name, "' is not a valid op name; use lowercase letters, digits and _");
  if (OpRegistry::builtin().get(op.name) != nullptr)
    return misuse("augment", "'", op.name, "' is one of dlpipe's own ops; use another name");
  if (op.function == nullptr) return misuse("augment", "op '", op.name, "' has no function");
  if (!is_name(op.code))
    return misuse("augment", "'", op.code, "' is not a valid code; use lowercase letters, digits and _");
  std::vector<OpParam> parameters;
  for (const auto& [name, value] : op.parameters) {
    const auto is_same = [&name = name](const OpParam& one) { return one.name == name; };
    if (!is_name(name) || name == kCode || name == "p" || std::ranges::any_of(parameters, is_same)) {
      return misuse("augment", "op '", op.name, "' can't have a parameter '", name,
                    "'; use lowercase letters, digits and _, each name once, but not code or p");
    }
    parameters.push_back(
        {.name = name, .kind = "float", .default_value = shortest_decimal(value), .help = "a number"});
  }
  parameters.push_back({.name = kCode, .kind = "string", .default_value = op.code, .help = "its function"});
  parameters.push_back(probability());
  Functions& all = functions();
  const MutexLock lock(all.mutex);
  const auto [at, is_new] = all.by_code.emplace(op.code, op);
  if (!is_new && (at->second.function != op.function || at->second.parameters != op.parameters)) {
    return misuse("augment", "op '", op.name, "' has the same code '", op.code, "' as another function ('",
                  at->second.name, "'); give it another version");
  }
  const std::string& name = all.texts.emplace_back(op.name);
  const std::string& help = all.texts.emplace_back(op.help);
  OpRegistry changed;
  for (const OpRecord* record : registry.records()) {
    if (record->name != op.name) changed.add(*record);
  }
  changed.add(all.records.emplace_back(OpRecord{.name = name.c_str(),
                                                .help = help.c_str(),
                                                .version = 1,
                                                .params = std::move(parameters),
                                                .build = build_op<FunctionCall>}));
  registry = std::move(changed);
  return {};
}

}  // namespace dlpipe::augment

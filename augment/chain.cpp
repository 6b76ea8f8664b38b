#include "dlpipe/augment/chain.h"

#include <bit>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/expression.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

/// One word into a running hash: multiply and fold (a plan is hashed per sample, so cheaper than Philox).
uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

uint64_t pair_of(int32_t a, int32_t b) {
  return (uint64_t{static_cast<uint32_t>(a)} << 32) | static_cast<uint32_t>(b);
}

uint64_t hash_draw(uint64_t hash, const OpDraw& draw) {
  hash = mix(hash, draw.active ? 1 : 2);
  if (!draw.active) return hash;
  hash = mix(hash, pair_of(draw.region.x, draw.region.y));
  hash = mix(hash, pair_of(draw.region.width, draw.region.height));
  hash = mix(hash, pair_of(draw.out.width, draw.out.height));
  for (size_t i = 0; i < draw.values.size(); i += 2) {
    hash = mix(hash, (uint64_t{std::bit_cast<uint32_t>(draw.values[i])} << 32) |
                         std::bit_cast<uint32_t>(draw.values[i + 1]));
  }
  return hash;
}

int64_t turn_of(const SampleKey& key) {
  return key.epoch + RandomStream(key.seed, static_cast<uint64_t>(key.sample)).below(2);
}

std::string call_text(const OpRecord& record, const OpArguments& arguments) {
  std::string text = record.name;
  if (arguments.values.empty()) return text;
  for (size_t i = 0; i < arguments.values.size(); ++i) {
    text += (i == 0 ? "(" : ",") + arguments.values[i].first + "=" + arguments.values[i].second;
  }
  return text + ")";
}

std::string size_text(const ImageSize& size) {
  return concat(size.width, "x", size.height, "x", size.channels);
}

Status find_record(const ExpressionCall& call, const OpRegistry& registry, std::string_view text,
                   const OpRecord** record) {
  *record = registry.find(call.name);
  if (*record != nullptr) return {};
  std::vector<std::string> names;
  for (const OpRecord* known : registry.records()) names.emplace_back(known->name);
  return Status(ErrorCode::kMisuse, concat("[augment] unknown op '", call.name, "'",
                                           at_position(call.position, text), suggestion(call.name, names)));
}

ConstImageView part_of(const ConstImageView& image, const Region& region) {
  return ConstImageView(image.row(region.y) + ptrdiff_t{region.x} * image.channels, region.width,
                        region.height, image.channels, image.stride);
}

}  // namespace

Result<Chain> Chain::parse(std::string_view expression, const OpRegistry& registry) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ExpressionCall> calls, parse_expression(expression));
  Chain chain;
  const OpRecord* prep = nullptr;  // the first op that describes the finished batch
  for (const ExpressionCall& call : calls) {
    const OpRecord* record = nullptr;
    DLPIPE_RETURN_IF_ERROR(find_record(call, registry, expression, &record));
    DLPIPE_ASSIGN_OR_RETURN(const OpArguments arguments, bind_arguments(call, *record, expression));
    Result<Entry> entry = build(*record, arguments);
    if (!entry.ok()) {
      return Status(entry.status().code(), concat("[augment] ", record->name, ": ", entry.status().message(),
                                                  at_position(call.position, expression)));
    }
    if (prep != nullptr && entry->prep == nullptr) {
      return Status(
          ErrorCode::kMisuse,
          concat("[augment] ", record->name, at_position(call.position, expression), " can't follow ",
                 prep->name, ", which describes the finished batch; put ", prep->name, " at the end"));
    }
    if (entry->prep != nullptr) {
      if (chain.contains(record->name)) {
        return Status(ErrorCode::kMisuse,
                      concat("[augment] second ", record->name, at_position(call.position, expression),
                             "; a batch takes one, leave the other out"));
      }
      if (prep == nullptr) prep = record;
    }
    chain.ops_.push_back(*std::move(entry));
  }
  return chain;
}

Result<Chain::Entry> Chain::build(const OpRecord& record, const OpArguments& arguments) {
  Entry entry{nullptr, nullptr, nullptr, &record, call_text(record, arguments)};
  if (record.build_prep != nullptr) {
    DLPIPE_ASSIGN_OR_RETURN(entry.prep, record.build_prep(arguments));
  } else {
    DLPIPE_ASSIGN_OR_RETURN(entry.op, record.build(arguments));
    entry.resize = dynamic_cast<const ResizeOp*>(entry.op.get());
  }
  return entry;
}

Result<ImageSize> Chain::output(const ImageSize& source_or_any) const {
  ImageSize size = source_or_any;
  for (const Entry& entry : ops_) {
    if (entry.op != nullptr) size = entry.op->output(size);
  }
  if (size.width <= 0 || size.height <= 0) {
    return Status(ErrorCode::kMisuse,
                  concat("[augment] \"", canonical(),
                         "\" gives images whose size follows each picture's, which can't stand in one batch; "
                         "add rrc(SIZE), resize(HxW), center_crop(SIZE) or pad_crop(SIZE,PAD)"));
  }
  return size;
}

Status Chain::plan(const ImageSize& source, const SampleKey& key, ChainPlan& plan) const {
  if (source.width <= 0 || source.height <= 0 || source.channels < 1 || source.channels > 4) {
    return Status(ErrorCode::kMisuse,
                  concat("[augment] a source image of ", size_text(source),
                         " can't be planned for; give its width, height and 1 to 4 channels"));
  }
  plan.draws.resize(ops_.size());
  plan.steps.clear();
  plan.source_region = {0, 0, source.width, source.height};
  plan.hash = 0;
  ImageSize size = source;
  const uint64_t epoch_key = RandomStream::epoch_key(key);
  for (size_t i = 0; i < ops_.size(); ++i) {
    OpDraw& draw = plan.draws[i] = OpDraw{};
    if (ops_[i].op == nullptr) {
      draw.active = false;
      continue;
    }
    RandomStream rng(epoch_key, key, static_cast<uint32_t>(i));
    draw.in = size;
    if (ops_[i].record->traits.takes_turns) draw.turn = turn_of(key);
    if (Status status = ops_[i].op->plan(size, rng, draw); !status.ok()) {
      return status.with_context(concat("[augment] ", ops_[i].text, ": "));
    }
    plan.hash = hash_draw(plan.hash, draw);
    if (!draw.active) continue;
    draw.window = {0, 0, draw.out.width, draw.out.height};
    append_step(static_cast<int>(i), plan);
    size = draw.out;
  }
  plan.out = size;
  return {};
}

void Chain::append_step(int index, ChainPlan& plan) const {
  const OpDraw& draw = plan.draws[index];
  const Region& reads = draw.region;
  if (plan.steps.empty()) {
    // Only what the first op reads is decoded.
    Region& source = plan.source_region;
    source = {source.x + reads.x, source.y + reads.y, reads.width, reads.height};
    if (!draw.crop_only) plan.steps.push_back({index, {0, 0, reads.width, reads.height}});
    return;
  }
  ChainStep& last = plan.steps.back();
  OpDraw& before = plan.draws[last.op];
  const Entry& op_before = ops_[last.op];
  if (ops_[index].record->traits.is_mirror && op_before.record->traits.can_mirror) {
    before.mirror = !before.mirror;
    return;
  }
  // `reads` is relative to what the op before writes: its window, mirrored or not.
  const Region window = before.window;
  Region input = reads;
  if (reads != Region{0, 0, window.width, window.height}) {
    const Region old = before.region;
    const int x = before.mirror ? window.width - reads.x - reads.width : reads.x;
    const Region needed = {window.x + x, window.y + reads.y, reads.width, reads.height};
    if (op_before.resize != nullptr && op_before.resize->narrow(needed, before)) {
      Region& decoded = plan.steps.size() == 1 ? plan.source_region : last.input;
      decoded.x += before.region.x - old.x;
      decoded.y += before.region.y - old.y;
      decoded.width = before.region.width;
      decoded.height = before.region.height;
      if (plan.steps.size() == 1) last.input = {0, 0, decoded.width, decoded.height};
      input = {0, 0, reads.width, reads.height};
    }
  }
  const bool whole = input == Region{0, 0, before.window.width, before.window.height};
  if (!(draw.crop_only && whole)) plan.steps.push_back({index, input});
}

Status Chain::apply(const ChainPlan& plan, const ConstImageView& source_region_pixels, const ImageView& out,
                    ChainScratch& scratch) const {
  const ConstImageView& source = source_region_pixels;
  if (plan.draws.size() != ops_.size() || source.width != plan.source_region.width ||
      source.height != plan.source_region.height || out.width != plan.out.width ||
      out.height != plan.out.height || out.channels != source.channels) {
    return Status(ErrorCode::kMisuse,
                  concat("[augment] apply got ", size_text({source.width, source.height, source.channels}),
                         " -> ", size_text({out.width, out.height, out.channels}), ", but the plan says ",
                         plan.source_region.width, "x", plan.source_region.height, " -> ",
                         size_text(plan.out), "; decode plan.source_region and give plan.out's size"));
  }
  if (plan.steps.empty()) {
    copy_image(source, out, false);
    return {};
  }
  ConstImageView image = source;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const ChainStep& step = plan.steps[k];
    const OpDraw& draw = plan.draws[step.op];
    ImageView to = out;
    if (k + 1 < plan.steps.size()) {
      const size_t row_bytes = size_t(draw.window.width) * size_t(out.channels);
      std::vector<uint8_t>& memory = scratch.images[k % 2];
      if (memory.size() < row_bytes * draw.window.height) memory.resize(row_bytes * draw.window.height);
      to = {memory.data(), draw.window.width, draw.window.height, out.channels,
            static_cast<ptrdiff_t>(row_bytes)};
    }
    Status status = ops_[step.op].op->apply(draw, part_of(image, step.input), to, scratch);
    if (!status.ok()) return status.with_context(concat("[augment] ", ops_[step.op].text, ": "));
    image = to;
  }
  return {};
}

std::optional<PlannedResize> Chain::as_resize(const ChainPlan& plan) const {
  const Region& source = plan.source_region;
  if (plan.steps.empty())
    return PlannedResize{whole_resize(source.width, source.height, source.width, source.height)};
  const ChainStep& step = plan.steps.front();
  if (plan.steps.size() > 1 || step.input != Region{0, 0, source.width, source.height}) return std::nullopt;
  const ResizeOp* const resize = ops_[step.op].resize;
  if (resize == nullptr) return std::nullopt;
  return resize->as_resize(plan.draws[step.op]);
}

Status Chain::fill_prep(BatchPrep& prep, const ChannelStats& dataset) const {
  for (const Entry& entry : ops_) {
    if (entry.prep == nullptr) continue;
    Status status = entry.prep->fill(dataset, prep);
    if (!status.ok()) return status.with_context(concat("[augment] ", entry.text, ": "));
  }
  return {};
}

std::string Chain::canonical() const {
  std::string text;
  for (const Entry& entry : ops_) {
    text += (text.empty() ? "" : " ") + entry.text + "@" + std::to_string(entry.record->version);
  }
  return text;
}

bool Chain::contains(std::string_view op_name) const {
  for (const Entry& entry : ops_) {
    if (entry.record->name == op_name) return true;
  }
  return false;
}

}  // namespace dlpipe::augment

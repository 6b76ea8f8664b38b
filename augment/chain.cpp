// A chain after parsing (chain_parse.cpp): its description, the plan of one sample, and applying a plan's steps to pixels.
#include "dlpipe/augment.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "augment/arguments.h"
#include "augment/chain_link.h"
#include "augment/copy.h"
#include "augment/moving.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/augment_op.h"
#include "dlpipe/error.h"

namespace dlpipe::augment {

std::string size_text(const ImageSize& size) {
  return concat(size.width, "x", size.height, "x", size.channels);
}

// The size after any one of the choices; zeros if it differs between them.
static ImageSize size_after_one(const ChainLink& link, const ImageSize& size) {
  ImageSize after = size;
  for (size_t i = 0; i < link.choices.size(); ++i) {
    const ImageSize one = link.choices[i]->size_after(size);
    if (i == 0) after = one;
    if (after != one) after = {0, 0, size.channels};
  }
  return after;
}

static ImageSize size_after_policy(const ChainLink& link, const ImageSize& size) {
  const auto [least, most] = link.policy->times();
  ImageSize after = size;
  for (int i = 0; i < least; ++i) after = size_after_one(link, after);
  if (most > least && size_after_one(link, after) != after) after = {0, 0, size.channels};
  return after;
}

ImageSize Chain::size_after(const ImageSize& in) const {
  ImageSize size = in;
  for (const auto& link : links_) {
    if (link->prep != nullptr) continue;
    ImageSize after = size;
    if (link->op != nullptr) after = link->op->output(size);
    if (link->policy != nullptr) after = size_after_policy(*link, size);
    if (link->probability < 1 && after != size) after = {0, 0, size.channels};
    size = after;
  }
  return size;
}

Result<ImageSize> Chain::output(const ImageSize& source_or_any) const {
  const ImageSize size = size_after(source_or_any);
  if (size.width <= 0 || size.height <= 0) {
    constexpr size_t kMostText = 400;
    return misuse("augment", "\"", shortened(canonical(), kMostText),
                  "\" makes images of different sizes, which can't be in one batch; "
                  "add rrc(SIZE), resize(HxW), center_crop(SIZE) or pad_crop(SIZE,PAD)");
  }
  return size;
}

std::optional<PlannedResize> as_resize(const ChainPlan& plan) {
  if (plan.is_joined()) return std::nullopt;
  const Region& source = plan.source_region;
  const ResizeGeometry same = whole_resize(source.width, source.height, source.width, source.height);
  if (plan.steps.empty()) return PlannedResize{same};
  const ChainStep& step = plan.steps.front();
  if (plan.steps.size() > 1 || step.input != Region{0, 0, source.width, source.height}) return std::nullopt;
  if (step.op == ChainStep::kCopy) return PlannedResize{same, step.mirror};
  const ResizeOp* const resize = plan.links[static_cast<size_t>(step.op)]->resize;
  if (resize == nullptr) return std::nullopt;
  return resize->as_resize(plan.draws[static_cast<size_t>(step.op)]);
}

Status Chain::fill_prep(BatchPrep& prep, const ChannelStats& dataset) const {
  for (const auto& link : links_) {
    if (link->prep == nullptr) continue;
    Status status = link->prep->fill(dataset, prep);
    if (!status.ok()) return status.with_context(concat("[augment] ", link->text, ": "));
  }
  return check_pixel_range(prep, prep.dtype);  // cast may come after normalize
}

std::string Chain::describe(const ChainPlan& plan) {
  std::string text;
  for (const JoinedImage& image : plan.images) {
    const std::string one = describe(image.plan);
    text += concat(text.empty() ? "(" : " | ", one.empty() ? "-" : one);
  }
  if (plan.is_joined()) text += ")";
  for (size_t i = 0; i < plan.draws.size(); ++i) {
    const OpDraw& draw = plan.draws[i];
    if (!draw.active) continue;
    std::string drawn;
    if (draw.drawn_region != Region{0, 0, draw.in.width, draw.in.height}) {
      const Region& r = draw.drawn_region;
      drawn = concat(r.width, "x", r.height, " at ", r.x, ",", r.y);
    }
    size_t count = draw.values.size();
    while (count > 0 && draw.values[count - 1] == 0) --count;
    for (size_t v = 0; v < count; ++v) drawn += concat(drawn.empty() ? "" : " ", draw.values[v]);
    text += concat(text.empty() ? "" : " ", plan.links[i]->record->name, drawn.empty() ? "" : "[", drawn,
                   drawn.empty() ? "" : "]");
  }
  return text;
}

bool Chain::contains(std::string_view op_name) const {
  for (const auto& link : links_) {
    if (link->record->name == op_name) return true;
  }
  return false;
}

const OpRecord* Chain::find_link(const std::function<bool(const ChainLink&)>& is_it) const {
  for (const auto& link : links_) {
    if (is_it(*link)) return link->record;
    for (const Chain* choice : link->choices) {
      if (const OpRecord* const found = choice->find_link(is_it); found != nullptr) return found;
    }
  }
  return nullptr;
}

const OpRecord* Chain::find(bool OpTraits::*trait) const {
  return find_link([trait](const ChainLink& link) { return link.record->traits.*trait; });
}

const OpRecord* Chain::find_join() const {
  return find_link([](const ChainLink& link) { return link.join != nullptr; });
}

const OpRecord* Chain::find_paste() const {
  return find_link([](const ChainLink& link) { return link.paste != nullptr; });
}

const OpRecord* Chain::find_boxed() const {
  return find_link([](const ChainLink& link) { return link.boxed != nullptr || link.paste != nullptr; });
}

bool Chain::resizes_whole_images() const {
  constexpr int64_t kDraws = 8;
  const auto is_whole = [&](const ImageSize& source, int64_t draw) {
    ChainPlan planned;
    if (!plan(source, {.seed = 1, .position = draw, .sample = draw}, planned).ok() || planned.is_joined())
      return false;
    if (planned.source_region != Region{0, 0, source.width, source.height}) return false;
    bool is_resized = false;
    for (size_t i = 0; i < planned.draws.size(); ++i) {
      const OpDraw& one = planned.draws[i];
      if (!one.active || one.out == one.in) continue;
      if (planned.links[i]->resize == nullptr || one.in != source || one.out != planned.out) return false;
      is_resized = true;
    }
    return is_resized;
  };
  for (int64_t draw = 0; draw < kDraws; ++draw)
    if (!is_whole({1201, 400, 3}, draw) || !is_whole({400, 1201, 3}, draw)) return false;
  return true;
}

// Ops do not declare whether they draw, and most have arguments that leave nothing to draw: rotate(0..0), hflip(p=1). A
// program's own function always gets a random number, and may ignore it.
const OpRecord* Chain::find_random() const {
  constexpr int64_t kDraws = 16;
  constexpr ImageSize kLarge = {4001, 3001, 3};  // larger than most crops
  const auto hash_of = [&](const Chain& chain, int64_t draw) {
    ChainPlan plan;
    const bool is_planned = chain.plan(kLarge, {.seed = 1, .position = draw, .sample = draw}, plan).ok();
    return is_planned ? plan.hash : 0;
  };
  for (const auto& link : links_) {
    const bool is_left_out = link->takes_probability && link->probability == 0;
    if (is_left_out || link->prep != nullptr) continue;
    if (link->join != nullptr || link->paste != nullptr || (link->takes_probability && link->probability < 1))
      return link->record;
    if (OpRegistry::builtin().get(link->record->name) == nullptr) continue;
    Chain alone;
    alone.links_ = {link};
    const uint64_t first = hash_of(alone, 0);
    for (int64_t draw = 1; draw < kDraws; ++draw)
      if (hash_of(alone, draw) != first) return link->record;
  }
  return nullptr;
}

std::pair<const Op*, const OpTraits*> Chain::op_of(const ChainPlan& plan, size_t i) {
  return {plan.links[i]->op.get(), &plan.links[i]->record->traits};
}

static float as_stored(float value, DType dtype) {
  if (dtype == DType::kF16) return static_cast<float>(Float16(value));
  return dtype == DType::kBF16 ? rounded_to_bf16(value) : value;
}

Status check_pixel_range(const BatchPrep& prep, DType dtype) {
  constexpr float kWhite = 255;
  for (size_t c = 0; c < prep.scale.size(); ++c) {
    for (const float pixel : {0.0f, kWhite}) {
      if (std::isfinite(as_stored(prep.scale[c] * pixel + prep.bias[c], dtype))) continue;
      return misuse("augment", "normalize: the std of channel ", c,
                    " is so small that pixels exceed the range of ", dtype_name(dtype), "; use a larger one");
    }
  }
  return {};
}

// --- the plan: every op's draws, then the steps that remain after crops and flips are folded into the ops before them

namespace {

constexpr size_t kMostDraws = 1000;  // ops that are applied to one sample
constexpr uint32_t kChosenOps =
    0x8000;  // first key of ops that a policy chose; the chain's own places have smaller ones

/// Adds a word to a running hash: multiply and fold. Cheaper than Philox, because a plan is hashed for every sample.
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
  // Always the first four values, and the rest if any, so that chains of older versions keep their hash.
  for (size_t i = 0; i < draw.values.size(); i += 2) {
    const uint64_t word = (uint64_t{std::bit_cast<uint32_t>(draw.values[i])} << 32) |
                          std::bit_cast<uint32_t>(draw.values[i + 1]);
    if (i < 4 || word != 0) hash = mix(hash, word + (i < 4 ? 0 : i));
  }
  return draw.key == 0 ? hash : mix(hash, draw.key);
}

int64_t turn_of(const SampleKey& key) {
  return key.epoch + RandomStream(key.seed, static_cast<uint64_t>(key.sample)).below(2);
}

/// Checks the sizes that are written. A long thin image may be resized to a very long one if a later crop uses only a part of it.
Status check_written(const ChainPlan& plan) {
  for (const ChainStep& step : plan.steps) {
    if (step.op == ChainStep::kCopy) continue;
    const ChainLink& link = *plan.links[static_cast<size_t>(step.op)];
    const OpDraw& draw = plan.draws[static_cast<size_t>(step.op)];
    const int most = std::max({kMaxSize, draw.in.width, draw.in.height});
    if (link.resize == nullptr || std::max(draw.window.width, draw.window.height) <= most) continue;
    return {ErrorCode::kUnsupported,
            concat("[augment] ", link.text, ": an image of ", draw.in.width, "x", draw.in.height,
                   " would become ", draw.window.width, "x", draw.window.height, ", more than ", most,
                   "; give both sides as HxW, or crop the result")};
  }
  return {};
}

}  // namespace

/// State of planning one sample, passed from op to op.
struct Chain::Planning {
  const SampleKey& key;
  uint64_t epoch_key;
  ChainPlan& plan;
  ImageSize size;     // before the next op
  uint32_t next_key;  // of the next op that a policy chose
  std::span<const PlannedImage> images;

  Planning(const SampleKey& key_in, uint64_t epoch_key_in, ChainPlan& plan_in,
           std::span<const PlannedImage> images_in)
      : key(key_in),
        epoch_key(epoch_key_in),
        plan(plan_in),
        size(images_in.front().size),
        next_key(kChosenOps),
        images(images_in) {
    plan.source = size;
    plan.draws.clear();
    plan.links.clear();
    plan.images.clear();
    plan.pastes = false;
    plan.hash = 0;
  }

  /// Boxes of all images, as input of the next op.
  std::vector<MovedBox> boxes() const {
    std::vector<MovedBox> all;
    const size_t count = plan.is_joined() ? plan.images.size() : 1;
    for (size_t k = 0; k < count; ++k) {
      const Moving moving = plan.is_joined() ? Moving(plan, k) : Moving(plan);
      const std::span<const float> rows = images[k].boxes;
      for (size_t i = 0; i + 3 < rows.size(); i += 4) {
        const std::optional<MovedBox> box = moving.box(rows.subspan(i).first<4>(), i / 4);
        if (box.has_value()) all.push_back(*box);
      }
    }
    return all;
  }
};

Status Chain::plan(const ImageSize& source, const SampleKey& key, ChainPlan& plan) const {
  const PlannedImage own{source, key.sample};
  return this->plan({&own, 1}, key, plan);
}

Status Chain::plan(std::span<const PlannedImage> images, const SampleKey& key, ChainPlan& plan) const {
  for (const PlannedImage& image : images) {
    const ImageSize& source = image.size;
    if (source.width > 0 && source.height > 0 && source.channels >= 1 && source.channels <= 4) continue;
    return misuse("augment", "a source image of ", size_text(source),
                  " is not supported; give its width, height and 1 to 4 channels");
  }
  Planning planning(key, RandomStream::epoch_key(key), plan, images);
  DLPIPE_RETURN_IF_ERROR(plan_links(planning, false));
  plan.out = planning.size;
  fold(plan, {0, 0, plan.out.width, plan.out.height});
  if (plan.is_joined()) fold_joined(plan);
  for (const JoinedImage& image : plan.images) DLPIPE_RETURN_IF_ERROR(check_written(image.plan));
  return check_written(plan);
}

bool Chain::is_drawn(size_t place, RandomStream& rng) const {
  return !links_[place]->takes_probability || rng.uniform_double() < links_[place]->probability;
}

int Chain::others(const SampleKey& key) const {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i]->join == nullptr) continue;
    RandomStream rng(key, static_cast<uint32_t>(i));
    if (is_drawn(i, rng)) return links_[i]->join->others();
  }
  return 0;
}

// The draws so far belong to the sample's own image; the others' are made now, and the plan starts over with this op.
Status Chain::plan_joined(Planning& planning, size_t place) const {
  ChainPlan& plan = planning.plan;
  const ChainLink& link = *links_[place];
  const auto count = static_cast<size_t>(link.join->others()) + 1;
  if (planning.images.size() < count) {
    return misuse("augment", link.record->name, " joins ", count,
                  " images of a dataset, but only one is available here; leave it out");
  }
  std::vector<JoinedImage> images(count);
  std::vector<ImageSize> sizes(count);
  images[0].plan = std::move(plan);
  images[0].plan.out = sizes[0] = planning.size;
  uint64_t hash = images[0].plan.hash;
  for (size_t k = 1; k < count; ++k) {
    const PlannedImage& image = planning.images[k];
    SampleKey key = planning.key;
    key.sample = image.sample;
    Planning own(key, philox_mix(planning.epoch_key, k), images[k].plan, {&image, 1});
    DLPIPE_RETURN_IF_ERROR(plan_links(own, false, 0, place));
    images[k].plan.out = sizes[k] = own.size;
    hash = mix(mix(hash, static_cast<uint64_t>(image.sample)), images[k].plan.hash);
  }
  plan = ChainPlan();
  plan.hash = hash;
  OpDraw& draw = plan.draws.emplace_back();
  plan.links.push_back(&link);
  draw.in = planning.size;
  draw.out = link.op->output(draw.in);
  RandomStream rng(planning.epoch_key, planning.key, static_cast<uint32_t>(place));
  is_drawn(place, rng);  // skips the number that plan_links has used
  std::vector<JoinedPart> parts(count);
  if (Status status = link.join->place(sizes, rng, draw, parts); !status.ok())
    return status.with_context(concat("[augment] ", link.text, ": "));
  for (size_t k = 0; k < count; ++k) {
    images[k].from = parts[k].from;
    images[k].x = parts[k].x;
    images[k].y = parts[k].y;
  }
  // The op itself moves nothing. The following steps begin with its output.
  plan.source = draw.in = draw.out;
  draw.region = draw.drawn_region = draw.window = {0, 0, draw.out.width, draw.out.height};
  draw.crop_only = true;
  planning.size = draw.out;
  plan.images = std::move(images);
  if (link.paste != nullptr)
    plan.hash = mix(plan.hash, paste_objects(*link.paste, planning.images, rng, plan));
  plan.hash = hash_draw(plan.hash, plan.draws.front());
  return {};
}

Status Chain::plan_links(Planning& planning, bool is_chosen, size_t begin, size_t end) const {
  ChainPlan& plan = planning.plan;
  for (size_t i = begin; i < std::min(end, links_.size()); ++i) {
    const ChainLink& link = *links_[i];
    const uint32_t place = is_chosen ? planning.next_key++ : static_cast<uint32_t>(i);
    RandomStream rng(planning.epoch_key, planning.key, place);
    const bool active = is_drawn(i, rng);
    if (link.join != nullptr && active) {
      DLPIPE_RETURN_IF_ERROR(plan_joined(planning, i));
      continue;
    }
    if (link.policy != nullptr && active) {
      std::vector<int> chosen;
      link.policy->choose(rng, chosen);
      for (const int choice : chosen) {
        plan.hash = mix(plan.hash, static_cast<uint64_t>(choice) + 3);  // draws begin with 1 or 2
        DLPIPE_RETURN_IF_ERROR(link.choices[static_cast<size_t>(choice)]->plan_links(planning, true));
      }
      continue;
    }
    if (plan.draws.size() == kMostDraws) {
      return misuse("augment", "more than ", kMostDraws,
                    " ops for one image; leave out some of those that repeat others");
    }
    const std::vector<MovedBox> boxes =
        link.boxed != nullptr && active ? planning.boxes() : std::vector<MovedBox>();
    OpDraw& draw = plan.draws.emplace_back();
    plan.links.push_back(&link);
    draw.in = planning.size;
    draw.active = active && link.op != nullptr;
    if (link.prep != nullptr) continue;
    if (draw.active) {
      draw.region = {0, 0, draw.in.width, draw.in.height};
      draw.out = link.op->output(draw.in);
      if (link.record->traits.takes_turns) draw.turn = turn_of(planning.key);
      const Status status = link.boxed != nullptr ? link.boxed->plan_around(boxes, draw.in, rng, draw)
                                                  : link.op->plan(draw.in, rng, draw);
      if (!status.ok()) return status.with_context(concat("[augment] ", link.text, ": "));
    }
    plan.hash = hash_draw(plan.hash, draw);
    if (!draw.active) continue;
    draw.drawn_region = draw.region;
    draw.window = {0, 0, draw.out.width, draw.out.height};
    planning.size = draw.out;
  }
  return {};
}

// An op's output is the next op's input, so this works from the last op to the first. A crop or a flip is not a step: it
// changes which part of the previous op is needed, and from which side.
void Chain::fold(ChainPlan& plan, Region needed) {
  plan.steps.clear();
  bool mirror = false;  // the needed part must still be mirrored
  // Converts the previous image to the `input` of the next step; adds a copying step if there is none or a flip remains.
  const auto hand_over = [&](const Region& input, bool is_whole) {
    if (mirror || (plan.steps.empty() && !is_whole)) {
      if (!plan.steps.empty()) plan.steps.back().input = {0, 0, input.width, input.height};
      plan.steps.push_back({ChainStep::kCopy, input, mirror});
    } else if (!plan.steps.empty()) {
      plan.steps.back().input = input;
    }
    mirror = false;
  };
  for (size_t i = plan.draws.size(); i-- > 0;) {
    OpDraw& draw = plan.draws[i];
    if (!draw.active) continue;
    const ChainLink& link = *plan.links[i];
    const OpTraits& traits = link.record->traits;
    if (traits.is_mirror) {
      needed.x = draw.out.width - needed.x - needed.width;
      mirror = !mirror;
      continue;
    }
    if (draw.crop_only) {
      needed.x += draw.region.x;
      needed.y += draw.region.y;
      continue;
    }
    if (needed != draw.window) link.op->narrow(needed, draw);
    const Region& window = draw.window;
    Region input = {needed.x - window.x, needed.y - window.y, needed.width, needed.height};
    if (mirror && traits.can_mirror) {
      draw.mirror = true;
      mirror = false;
      input.x = window.width - input.x - input.width;
    }
    hand_over(input, needed == window);
    plan.steps.push_back({static_cast<int>(i), {}, false});
    needed = draw.region;
  }
  hand_over({0, 0, needed.width, needed.height}, true);
  plan.source_region = needed;
  std::reverse(plan.steps.begin(), plan.steps.end());
}

void Chain::fold_joined(ChainPlan& plan) {
  const Region& all = plan.source_region;
  for (JoinedImage& image : plan.images) {
    const int left = std::max(image.x, all.x), top = std::max(image.y, all.y);
    const int right = std::min(image.x + image.from.width, all.x + all.width);
    const int bottom = std::min(image.y + image.from.height, all.y + all.height);
    const bool is_seen = left < right && top < bottom;
    image.needed = is_seen ? Region{left, top, right - left, bottom - top} : Region();
    image.plan.out.width = image.needed.width;
    image.plan.out.height = image.needed.height;
    image.plan.steps.clear();
    image.plan.source_region = {};
    if (!is_seen) continue;
    fold(image.plan, {left - image.x + image.from.x, top - image.y + image.from.y, image.needed.width,
                      image.needed.height});
  }
}

// --- pixels through the steps of a plan

namespace {

constexpr size_t kImagePadding = 64;  // after an image between two ops, for kernels that read whole vectors

/// `memory` as an image of the region's size.
ImageView dense_view(std::vector<uint8_t>& memory, const Region& region, int channels) {
  const ptrdiff_t row_bytes = ptrdiff_t{region.width} * channels;
  const size_t bytes = static_cast<size_t>(row_bytes * region.height) + kImagePadding;
  ChainScratch::grow(memory, bytes);
  return {memory.data(), region.width, region.height, channels, row_bytes};
}

/// The pixels that a step writes.
const Region& written_by(const ChainPlan& plan, const ChainStep& step) {
  return step.op == ChainStep::kCopy ? step.input : plan.draws[static_cast<size_t>(step.op)].window;
}

size_t dense_bytes(const Region& region, int channels) {
  return static_cast<size_t>(region.width) * static_cast<size_t>(region.height) *
             static_cast<size_t>(channels) +
         kImagePadding;
}

ConstImageView part_of(const ConstImageView& image, const Region& region) {
  return ConstImageView(image.row(region.y) + ptrdiff_t{region.x} * image.channels, region.width,
                        region.height, image.channels, image.stride);
}

}  // namespace

Status Chain::apply(const ChainPlan& plan, const ConstImageView& source_region_pixels, const ImageView& out,
                    ChainScratch& scratch) const {
  const ConstImageView& source = source_region_pixels;
  if (source.width != plan.source_region.width || source.height != plan.source_region.height ||
      out.width != plan.out.width || out.height != plan.out.height || out.channels != source.channels) {
    return misuse("augment", "apply got ", size_text({source.width, source.height, source.channels}), " -> ",
                  size_text({out.width, out.height, out.channels}), ", but the plan expects ",
                  plan.source_region.width, "x", plan.source_region.height, " -> ", size_text(plan.out),
                  "; decode plan.source_region and pass plan.out's size");
  }
  if (plan.steps.empty()) {
    copy_image(source, out, false);
    return {};
  }
  ConstImageView image = source;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const ChainStep& step = plan.steps[k];
    const bool is_copy = step.op == ChainStep::kCopy;
    const Region& written = written_by(plan, step);
    ImageView to = out;
    if (k + 1 < plan.steps.size()) {
      const size_t row_bytes = size_t(written.width) * size_t(out.channels);
      const size_t bytes = row_bytes * size_t(written.height) + kImagePadding;
      std::vector<uint8_t>& memory = scratch.images[k % 2];
      ChainScratch::grow(memory, bytes);
      to = {memory.data(), written.width, written.height, out.channels, static_cast<ptrdiff_t>(row_bytes)};
    }
    const ConstImageView from = part_of(image, step.input);
    if (is_copy) {
      copy_image(from, to, step.mirror);
    } else {
      const ChainLink& link = *plan.links[static_cast<size_t>(step.op)];
      Status status = link.op->apply(plan.draws[static_cast<size_t>(step.op)], from, to, scratch);
      if (!status.ok()) return status.with_context(concat("[augment] ", link.text, ": "));
    }
    image = to;
  }
  return {};
}

size_t Chain::scratch_bytes(const ChainPlan& plan) {
  const int channels = plan.out.channels;
  size_t images[2] = {0, 0};
  size_t of_ops = 0;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const ChainStep& step = plan.steps[k];
    if (k + 1 < plan.steps.size())
      images[k % 2] = std::max(images[k % 2], dense_bytes(written_by(plan, step), channels));
    if (step.op == ChainStep::kCopy) continue;
    const auto at = static_cast<size_t>(step.op);
    of_ops += plan.links[at]->op->scratch_bytes(plan.draws[at], channels);
  }
  size_t joined = plan.is_joined() ? dense_bytes(plan.source_region, channels) : 0;
  size_t of_images = 0, pasted = 0;
  for (const JoinedImage& image : plan.images) {
    if (image.needed.width == 0) continue;
    of_images = std::max(of_images, scratch_bytes(image.plan));
    if (plan.pastes) pasted = std::max(pasted, dense_bytes(image.needed, channels));
  }
  return images[0] + images[1] + of_ops + joined + pasted + of_images;
}

Status Chain::apply_joined(const ChainPlan& plan, ImageSource& source, const ImageView& out,
                           ChainScratch& scratch) const {
  const Region& all = plan.source_region;
  ImageView joined = out;
  std::vector<uint8_t> memory = std::move(scratch.joined);  // apply uses the rest of it
  std::vector<uint8_t> over = std::move(scratch.pasted);
  if (!plan.is_copy()) joined = dense_view(memory, all, plan.source.channels);
  const auto run = [&]() -> Status {
    // Parts do not overlap, unless the first covers everything; only uncovered pixels must be set.
    int64_t uncovered = int64_t{all.width} * all.height;
    for (const JoinedImage& image : plan.images)
      uncovered -= int64_t{image.needed.width} * image.needed.height;
    if (uncovered > 0)
      fill_region(joined, {0, 0, all.width, all.height}, plan.links.front()->join->background());
    for (size_t k = 0; k < plan.images.size(); ++k) {
      const JoinedImage& image = plan.images[k];
      const Region& at = image.needed;
      if (at.width == 0) continue;
      const ImageView place = {joined.row(at.y - all.y) + ptrdiff_t{at.x - all.x} * joined.channels, at.width,
                               at.height, joined.channels, joined.stride};
      const bool is_over = plan.pastes && k > 0;
      const ImageView to = is_over ? dense_view(over, at, joined.channels) : place;
      DLPIPE_ASSIGN_OR_RETURN(const ConstImageView pixels, source.pixels(k, image.plan, to));
      if (pixels.data != to.data) DLPIPE_RETURN_IF_ERROR(apply(image.plan, pixels, to, scratch));
      if (is_over) lay_over(plan.overlay, at, to, place);
    }
    return plan.is_copy() ? Status() : apply(plan, joined, out, scratch);
  };
  Status status = run();
  scratch.joined = std::move(memory);
  scratch.pasted = std::move(over);
  return status;
}

}  // namespace dlpipe::augment

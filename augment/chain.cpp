#include "dlpipe/augment/chain.h"

#include <algorithm>
#include <bit>

#include "dlpipe/augment/chain_link.h"
#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/moving.h"
#include "dlpipe/augment/paste.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

constexpr size_t kImagePadding = 64;  // behind an image between two ops, for kernels that read whole vectors
constexpr size_t kMostDraws = 1000;   // ops that one sample goes through
constexpr uint32_t kChosenOps =
    0x8000;  // keys of ops that a policy chose: behind those of the chain's own places

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
  // The first four values always, the rest where there is any: chains of older versions keep their hash.
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

std::string size_text(const ImageSize& size) {
  return concat(size.width, "x", size.height, "x", size.channels);
}

/// `memory` as a picture of the region's size.
ImageView dense_view(std::vector<uint8_t>& memory, const Region& region, int channels) {
  const ptrdiff_t row_bytes = ptrdiff_t{region.width} * channels;
  const size_t bytes = static_cast<size_t>(row_bytes * region.height) + kImagePadding;
  if (memory.size() < bytes) memory.resize(bytes);
  return {memory.data(), region.width, region.height, channels, row_bytes};
}

ConstImageView part_of(const ConstImageView& image, const Region& region) {
  return ConstImageView(image.row(region.y) + ptrdiff_t{region.x} * image.channels, region.width,
                        region.height, image.channels, image.stride);
}

}  // namespace

ImageSize Chain::size_after(const ImageSize& in) const {
  ImageSize size = in;
  for (const auto& link : links_) {
    if (link->prep != nullptr) continue;
    ImageSize after = size;
    if (link->op != nullptr) after = link->op->output(size);
    for (size_t i = 0; i < link->choices.size(); ++i) {
      const ImageSize one = link->choices[i]->size_after(size);
      if (i == 0) after = one;
      if (after != one) after = {0, 0, size.channels};
    }
    if (link->probability < 1 && after != size) after = {0, 0, size.channels};
    size = after;
  }
  return size;
}

Result<ImageSize> Chain::output(const ImageSize& source_or_any) const {
  const ImageSize size = size_after(source_or_any);
  if (size.width <= 0 || size.height <= 0) {
    return misuse("augment", "\"", canonical(),
                  "\" gives images of different sizes, which can't be in one batch; "
                  "add rrc(SIZE), resize(HxW), center_crop(SIZE) or pad_crop(SIZE,PAD)");
  }
  return size;
}

/// What planning one sample carries from op to op.
struct Chain::Planning {
  const SampleKey& key;
  uint64_t epoch_key;
  ChainPlan& plan;
  ImageSize size;     // before the next op
  uint32_t next_key;  // of the next op that a policy chose
  std::span<const PlannedPicture> pictures;

  Planning(const SampleKey& key_in, uint64_t epoch_key_in, ChainPlan& plan_in,
           std::span<const PlannedPicture> pictures_in)
      : key(key_in),
        epoch_key(epoch_key_in),
        plan(plan_in),
        size(pictures_in.front().size),
        next_key(kChosenOps),
        pictures(pictures_in) {
    plan.source = size;
    plan.draws.clear();
    plan.links.clear();
    plan.pictures.clear();
    plan.pastes = false;
    plan.hash = 0;
  }

  /// Those of all pictures, as they come to the next op.
  std::vector<MovedBox> boxes() const {
    std::vector<MovedBox> all;
    const size_t count = plan.is_joined() ? plan.pictures.size() : 1;
    for (size_t k = 0; k < count; ++k) {
      const Moving moving = plan.is_joined() ? Moving(plan, k) : Moving(plan);
      const std::span<const float> rows = pictures[k].boxes;
      for (size_t i = 0; i + 3 < rows.size(); i += 4) {
        const std::optional<MovedBox> box = moving.box(rows.subspan(i).first<4>(), i / 4);
        if (box.has_value()) all.push_back(*box);
      }
    }
    return all;
  }
};

Status Chain::plan(const ImageSize& source, const SampleKey& key, ChainPlan& plan) const {
  const PlannedPicture own{source, key.sample};
  return this->plan({&own, 1}, key, plan);
}

Status Chain::plan(std::span<const PlannedPicture> pictures, const SampleKey& key, ChainPlan& plan) const {
  for (const PlannedPicture& picture : pictures) {
    const ImageSize& source = picture.size;
    if (source.width > 0 && source.height > 0 && source.channels >= 1 && source.channels <= 4) continue;
    return misuse("augment", "a source image of ", size_text(source),
                  " can't be planned for; give its width, height and 1 to 4 channels");
  }
  Planning planning(key, RandomStream::epoch_key(key), plan, pictures);
  DLPIPE_RETURN_IF_ERROR(plan_links(planning, false));
  plan.out = planning.size;
  fold(plan, {0, 0, plan.out.width, plan.out.height});
  if (plan.is_joined()) fold_joined(plan);
  return {};
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

// The draws so far are those of the sample's own picture; the others' are made now, and the plan begins anew with the op.
Status Chain::plan_joined(Planning& planning, size_t place) const {
  ChainPlan& plan = planning.plan;
  const ChainLink& link = *links_[place];
  const auto count = static_cast<size_t>(link.join->others()) + 1;
  if (planning.pictures.size() < count) {
    return misuse("augment", link.record->name, " takes ", count,
                  " pictures of a dataset, and here is one; leave it out");
  }
  std::vector<JoinedPicture> pictures(count);
  std::vector<ImageSize> sizes(count);
  pictures[0].plan = std::move(plan);
  pictures[0].plan.out = sizes[0] = planning.size;
  uint64_t hash = pictures[0].plan.hash;
  for (size_t k = 1; k < count; ++k) {
    const PlannedPicture& picture = planning.pictures[k];
    SampleKey key = planning.key;
    key.sample = picture.sample;
    Planning own(key, philox_mix(planning.epoch_key, k), pictures[k].plan, {&picture, 1});
    DLPIPE_RETURN_IF_ERROR(plan_links(own, false, 0, place));
    pictures[k].plan.out = sizes[k] = own.size;
    hash = mix(mix(hash, static_cast<uint64_t>(picture.sample)), pictures[k].plan.hash);
  }
  plan = ChainPlan();
  plan.hash = hash;
  OpDraw& draw = plan.draws.emplace_back();
  plan.links.push_back(&link);
  draw.in = planning.size;
  draw.out = link.op->output(draw.in);
  RandomStream rng(planning.epoch_key, planning.key, static_cast<uint32_t>(place));
  is_drawn(place, rng);  // what plan_links has drawn
  std::vector<JoinedPart> parts(count);
  if (Status status = link.join->place(sizes, rng, draw, parts); !status.ok())
    return status.with_context(concat("[augment] ", link.text, ": "));
  for (size_t k = 0; k < count; ++k) {
    pictures[k].from = parts[k].from;
    pictures[k].x = parts[k].x;
    pictures[k].y = parts[k].y;
  }
  // It moves nothing: it is where what stands behind it begins.
  plan.source = draw.in = draw.out;
  draw.region = draw.drawn_region = draw.window = {0, 0, draw.out.width, draw.out.height};
  draw.crop_only = true;
  planning.size = draw.out;
  plan.pictures = std::move(pictures);
  if (link.paste != nullptr)
    plan.hash = mix(plan.hash, paste_objects(*link.paste, planning.pictures, rng, plan));
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
                    " ops for one picture; leave out some of those that repeat others");
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

// What an op writes is what the op behind it reads, so it goes from the last op to the first. A crop or a flip
// is no step: it changes which part of the op before it is needed, and on which side that begins.
void Chain::fold(ChainPlan& plan, Region needed) {
  plan.steps.clear();
  bool mirror = false;  // what is needed has to be mirrored yet
  // Makes `input` of the image before what the step behind reads; a step that copies, where there is none or a flip is
  // left over.
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
  for (JoinedPicture& picture : plan.pictures) {
    const int left = std::max(picture.x, all.x), top = std::max(picture.y, all.y);
    const int right = std::min(picture.x + picture.from.width, all.x + all.width);
    const int bottom = std::min(picture.y + picture.from.height, all.y + all.height);
    const bool is_seen = left < right && top < bottom;
    picture.needed = is_seen ? Region{left, top, right - left, bottom - top} : Region();
    picture.plan.out.width = picture.needed.width;
    picture.plan.out.height = picture.needed.height;
    picture.plan.steps.clear();
    picture.plan.source_region = {};
    if (!is_seen) continue;
    fold(picture.plan, {left - picture.x + picture.from.x, top - picture.y + picture.from.y,
                        picture.needed.width, picture.needed.height});
  }
}

Status Chain::apply(const ChainPlan& plan, const ConstImageView& source_region_pixels, const ImageView& out,
                    ChainScratch& scratch) const {
  const ConstImageView& source = source_region_pixels;
  if (source.width != plan.source_region.width || source.height != plan.source_region.height ||
      out.width != plan.out.width || out.height != plan.out.height || out.channels != source.channels) {
    return misuse("augment", "apply got ", size_text({source.width, source.height, source.channels}), " -> ",
                  size_text({out.width, out.height, out.channels}), ", but the plan says ",
                  plan.source_region.width, "x", plan.source_region.height, " -> ", size_text(plan.out),
                  "; decode plan.source_region and give plan.out's size");
  }
  if (plan.steps.empty()) {
    copy_image(source, out, false);
    return {};
  }
  ConstImageView image = source;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const ChainStep& step = plan.steps[k];
    const bool is_copy = step.op == ChainStep::kCopy;
    const Region& written = is_copy ? step.input : plan.draws[static_cast<size_t>(step.op)].window;
    ImageView to = out;
    if (k + 1 < plan.steps.size()) {
      const size_t row_bytes = size_t(written.width) * size_t(out.channels);
      const size_t bytes = row_bytes * size_t(written.height) + kImagePadding;
      std::vector<uint8_t>& memory = scratch.images[k % 2];
      if (memory.size() < bytes) memory.resize(bytes);
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

Status Chain::apply_joined(const ChainPlan& plan, PictureSource& source, const ImageView& out,
                           ChainScratch& scratch) const {
  const Region& all = plan.source_region;
  ImageView joined = out;
  std::vector<uint8_t> memory = std::move(scratch.joined);  // apply has the rest of it
  std::vector<uint8_t> over = std::move(scratch.pasted);
  if (!plan.is_copy()) joined = dense_view(memory, all, plan.source.channels);
  const auto run = [&]() -> Status {
    // Parts don't overlap, unless the first covers all: only what none covers has to be set.
    int64_t uncovered = int64_t{all.width} * all.height;
    for (const JoinedPicture& picture : plan.pictures)
      uncovered -= int64_t{picture.needed.width} * picture.needed.height;
    if (uncovered > 0)
      fill_region(joined, {0, 0, all.width, all.height}, plan.links.front()->join->background());
    for (size_t k = 0; k < plan.pictures.size(); ++k) {
      const JoinedPicture& picture = plan.pictures[k];
      const Region& at = picture.needed;
      if (at.width == 0) continue;
      const ImageView place = {joined.row(at.y - all.y) + ptrdiff_t{at.x - all.x} * joined.channels, at.width,
                               at.height, joined.channels, joined.stride};
      const bool is_over = plan.pastes && k > 0;
      const ImageView to = is_over ? dense_view(over, at, joined.channels) : place;
      DLPIPE_ASSIGN_OR_RETURN(const ConstImageView pixels, source.pixels(k, picture.plan, to));
      if (pixels.data != to.data) DLPIPE_RETURN_IF_ERROR(apply(picture.plan, pixels, to, scratch));
      if (is_over) lay_over(plan.overlay, at, to, place);
    }
    return plan.is_copy() ? Status() : apply(plan, joined, out, scratch);
  };
  const Status status = run();
  scratch.joined = std::move(memory);
  scratch.pasted = std::move(over);
  return status;
}

std::optional<PlannedResize> Chain::as_resize(const ChainPlan& plan) const {
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
  return {};
}

std::string Chain::describe(const ChainPlan& plan) {
  std::string text;
  for (const JoinedPicture& picture : plan.pictures) {
    const std::string one = describe(picture.plan);
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

const OpRecord* Chain::find(bool OpTraits::*trait) const {
  for (const auto& link : links_) {
    if (link->record->traits.*trait) return link->record;
    for (const Chain* choice : link->choices) {
      if (const OpRecord* const found = choice->find(trait); found != nullptr) return found;
    }
  }
  return nullptr;
}

std::pair<const Op*, const OpTraits*> Chain::op_of(const ChainPlan& plan, size_t i) {
  return {plan.links[i]->op.get(), &plan.links[i]->record->traits};
}

}  // namespace dlpipe::augment

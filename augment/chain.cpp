#include "dlpipe/augment/chain.h"

#include <algorithm>
#include <bit>

#include "dlpipe/augment/chain_link.h"
#include "dlpipe/augment/copy.h"
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
};

Status Chain::plan(const ImageSize& source, const SampleKey& key, ChainPlan& plan) const {
  if (source.width <= 0 || source.height <= 0 || source.channels < 1 || source.channels > 4) {
    return misuse("augment", "a source image of ", size_text(source),
                  " can't be planned for; give its width, height and 1 to 4 channels");
  }
  plan.draws.clear();
  plan.links.clear();
  plan.hash = 0;
  Planning planning{key, RandomStream::epoch_key(key), plan, source, kChosenOps};
  DLPIPE_RETURN_IF_ERROR(plan_links(planning, false));
  plan.out = planning.size;
  fold(plan);
  return {};
}

Status Chain::plan_links(Planning& planning, bool is_chosen) const {
  ChainPlan& plan = planning.plan;
  for (size_t i = 0; i < links_.size(); ++i) {
    const ChainLink& link = *links_[i];
    const uint32_t place = is_chosen ? planning.next_key++ : static_cast<uint32_t>(i);
    RandomStream rng(planning.epoch_key, planning.key, place);
    const bool active = !link.takes_probability || rng.uniform_double() < link.probability;
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
    OpDraw& draw = plan.draws.emplace_back();
    plan.links.push_back(&link);
    draw.in = planning.size;
    draw.active = active && link.op != nullptr;
    if (link.prep != nullptr) continue;
    if (draw.active) {
      draw.region = {0, 0, draw.in.width, draw.in.height};
      draw.out = link.op->output(draw.in);
      if (link.record->traits.takes_turns) draw.turn = turn_of(planning.key);
      if (Status status = link.op->plan(draw.in, rng, draw); !status.ok())
        return status.with_context(concat("[augment] ", link.text, ": "));
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
void Chain::fold(ChainPlan& plan) {
  plan.steps.clear();
  Region needed = {0, 0, plan.out.width, plan.out.height};
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

std::optional<PlannedResize> Chain::as_resize(const ChainPlan& plan) const {
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

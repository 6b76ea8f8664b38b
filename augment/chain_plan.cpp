// What a chain decides for one sample: every op's draws, then the steps that are left when crops and flips are folded into
// the ops before them.
#include <algorithm>
#include <bit>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/chain_link.h"
#include "dlpipe/augment/moving.h"
#include "dlpipe/augment/paste.h"
#include "dlpipe/augment/value.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

constexpr size_t kMostDraws = 1000;  // ops that one sample goes through
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

/// A long thin picture may be resized to a very long one, where a crop behind it takes a part.
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
                   "; give both sides, as HxW, or crop what comes of it")};
  }
  return {};
}

}  // namespace

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
  for (const JoinedPicture& picture : plan.pictures) DLPIPE_RETURN_IF_ERROR(check_written(picture.plan));
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

}  // namespace dlpipe::augment

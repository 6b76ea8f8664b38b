// What a chain is and says of itself; chain_parse.cpp makes it, chain_plan.cpp plans, chain_apply.cpp carries a plan out.
#include "dlpipe/augment/chain.h"

#include "dlpipe/augment/chain_link.h"
#include "dlpipe/augment/pixel_range.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

std::string size_text(const ImageSize& size) {
  return concat(size.width, "x", size.height, "x", size.channels);
}

// After one of the choices, whichever it is.
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
    return misuse("augment", "\"", canonical(),
                  "\" gives images of different sizes, which can't be in one batch; "
                  "add rrc(SIZE), resize(HxW), center_crop(SIZE) or pad_crop(SIZE,PAD)");
  }
  return size;
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
  return check_pixel_range(prep, prep.dtype);  // cast may stand behind normalize
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

std::pair<const Op*, const OpTraits*> Chain::op_of(const ChainPlan& plan, size_t i) {
  return {plan.links[i]->op.get(), &plan.links[i]->record->traits};
}

}  // namespace dlpipe::augment

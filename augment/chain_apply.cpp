// Pixels through the steps of a plan.
#include "dlpipe/augment/chain.h"

#include <algorithm>

#include "dlpipe/augment/chain_link.h"
#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/paste.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

constexpr size_t kImagePadding = 64;  // behind an image between two ops, for kernels that read whole vectors

/// `memory` as a picture of the region's size.
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
  size_t of_pictures = 0, pasted = 0;
  for (const JoinedPicture& picture : plan.pictures) {
    if (picture.needed.width == 0) continue;
    of_pictures = std::max(of_pictures, scratch_bytes(picture.plan));
    if (plan.pastes) pasted = std::max(pasted, dense_bytes(picture.needed, channels));
  }
  return images[0] + images[1] + of_ops + joined + pasted + of_pictures;
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
  Status status = run();
  scratch.joined = std::move(memory);
  scratch.pasted = std::move(over);
  return status;
}

}  // namespace dlpipe::augment

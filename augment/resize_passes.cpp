#include "dlpipe/augment/resize_passes.h"

#include <cstring>

namespace dlpipe::augment {

void ResizePasses::take_rows(Layout& layout) {
  const auto channels = static_cast<size_t>(channels_);
  // Rows before and behind the horizontal pass, each with room for what the kernel reads and writes behind
  // it.
  const auto row_bytes = [&](int width) {
    const size_t bytes = static_cast<size_t>(width) * channels + kRowPadding;
    return (bytes + Layout::kAlignment - 1) / Layout::kAlignment * Layout::kAlignment;
  };
  in_row_bytes_ = row_bytes(std::max(source_.width, across_.most_taps + 4));
  out_row_bytes_ = row_bytes(out_.width);
  ring_rows_ = down_.most_taps + group_;
  in_rows_ = layout.take<uint8_t>(in_row_bytes_ * static_cast<size_t>(group_));
  out_rows_ = layout.take<uint8_t>(out_row_bytes_ * static_cast<size_t>(ring_rows_));
  row_pointers_ = layout.take<const uint8_t*>(static_cast<size_t>(down_.most_taps) + 2);
  spare_row_ = layout.take<uint8_t>(out_row_bytes_);
  if (channels_ == 1) {
    grey_in_ = layout.take<uint8_t>(4 * in_row_bytes_ * kRowGroup);
    grey_out_ = layout.take<uint8_t>(4 * out_row_bytes_ * kRowGroup);
  }
}

void ResizePasses::prepare_across() {
  const int32_t pixel_bytes = channels_ == 1 ? 4 : channels_;
  for (int i = 0; i < across_.size; ++i) across_.begin[i] *= pixel_bytes;
  // The kernel computes four pixels at a time; those that nobody wants get no weight.
  std::fill_n(across_.begin + across_.size, 3, 0);
  std::fill_n(across_.weights + ptrdiff_t{across_.size} * across_.pairs, 3 * across_.pairs, WeightPair{});
  std::fill_n(across_.has_low + across_.size, 3, 0);
  is_narrow_ = source_.width < 2 * across_.pairs;
}

void ResizePasses::run_across() {
  for (int y = 0; y < out_.height; y += group_) {
    const int count = std::min(group_, out_.height - y);
    across(y, count, [&](int r) { return out_.row(y + r); });
  }
}

void ResizePasses::run_down() {
  // The support begins with the window's first column, and may have one more than the window.
  const auto source_row = [&](int row) { return source_.row(row); };
  for (int y = 0; y < out_.height; ++y) down(y, source_row, out_.width, out_.row(y));
}

/// Horizontal pass first, into a ring of rows that holds what the next output row needs.
void ResizePasses::run_across_down() {
  int done = 0;
  const auto ring_row = [&](int row) { return out_rows_ + size_t(row % ring_rows_) * out_row_bytes_; };
  for (int y = 0; y < out_.height; ++y) {
    while (done < down_.begin[y] + down_.taps[y]) {
      const int first = done;
      done = std::min(done + group_, source_.height);
      across(first, done - first, [&](int r) { return ring_row(first + r); });
    }
    down(y, ring_row, out_.width, out_.row(y));
  }
}

void ResizePasses::run_down_across() {
  for (int y = 0; y < out_.height; y += group_) {
    const int count = std::min(group_, out_.height - y);
    const uint8_t* rows[4 * kRowGroup];
    for (int r = 0; r < count; ++r) {
      uint8_t* row = in_rows_ + size_t(r) * in_row_bytes_;
      down(
          y + r, [&](int source_row) { return source_.row(source_row); }, source_.width, row);
      rows[r] = row;
    }
    across_rows(rows, count, [&](int r) { return out_.row(y + r); });
  }
}

/// The vertical pass of output row y over rows of `width` pixels.
template <class RowOf>
void ResizePasses::down(int y, const RowOf& row_of, int width, uint8_t* out) {
  for (int t = 0; t < 2 * down_.pairs; ++t) {
    row_pointers_[t] = row_of(down_.begin[y] + std::min(t, down_.taps[y] - 1));
  }
  kernels_.vertical(row_pointers_, down_.weights + ptrdiff_t{y} * down_.pairs, down_.pairs,
                    down_.has_low[y] != 0, static_cast<size_t>(width) * static_cast<size_t>(channels_), out);
}

/// The horizontal pass of source rows [first, first + count), count <= group_.
template <class OutRow>
void ResizePasses::across(int first, int count, const OutRow& out_row) {
  const auto row_bytes = ptrdiff_t{source_.width} * channels_;
  const uint8_t* end = source_.row(source_.height - 1) + row_bytes;
  const uint8_t* rows[4 * kRowGroup];
  for (int r = 0; r < count; ++r) {
    rows[r] = source_.row(first + r);
    // The kernel may read behind a row, but not behind the image.
    if (is_narrow_ || end - rows[r] < row_bytes + ptrdiff_t{kRowPadding}) {
      uint8_t* copy = in_rows_ + size_t(r) * in_row_bytes_;
      std::memcpy(copy, rows[r], static_cast<size_t>(row_bytes));
      rows[r] = copy;
    }
  }
  across_rows(rows, count, out_row);
}

template <class OutRow>
void ResizePasses::across_rows(const uint8_t** rows, int count, const OutRow& out_row) {
  const HorizontalTable table{across_.begin, across_.weights, across_.has_low, across_.pairs, across_.size};
  uint8_t* out[4 * kRowGroup];
  for (int r = 0; r < group_; ++r) {
    rows[r] = rows[std::min(r, count - 1)];
    out[r] = r < count ? out_row(r) : spare_row_;
  }
  if (channels_ != 1) {
    kernels_.horizontal(rows, channels_, table, out);
    return;
  }
  // Four grey rows are resized as one row of four channels.
  const uint8_t* wide_rows[kRowGroup];
  uint8_t* wide_out[kRowGroup];
  for (int w = 0; w < kRowGroup; ++w) {
    uint8_t* wide = grey_in_ + size_t(w) * 4 * in_row_bytes_;
    kernels_.interleave(rows + 4 * w, static_cast<size_t>(source_.width), wide);
    wide_rows[w] = wide;
    wide_out[w] = grey_out_ + size_t(w) * 4 * out_row_bytes_;
  }
  kernels_.horizontal(wide_rows, 4, table, wide_out);
  for (int w = 0; w < kRowGroup; ++w) {
    kernels_.deinterleave(wide_out[w], static_cast<size_t>(across_.size), out + 4 * w);
  }
}

}  // namespace dlpipe::augment

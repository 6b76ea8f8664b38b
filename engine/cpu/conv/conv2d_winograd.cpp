#include "engine/cpu/conv/conv2d_winograd.h"

#include "engine/core/constant_cache.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/core/parallel.h"
#include "engine/cpu/conv/conv2d_choice.h"
#include "engine/cpu/gemm/block_product.h"

namespace dlpipe::engine::cpu {
namespace {

constexpr int kWinogradSlot = 1;  // of worker_scratch; 0 is oneDNN's
// Padding between the planes of a transformed range. Without it, the rows of all frequencies would share a few sets of the cache.
constexpr int64_t kPlanesApart = 16;
// The most tiles that are transformed, multiplied and transformed back together. From 18 to 128 tiles, differences were within
// the machines' noise (Zen 3, Cascade Lake). Fewer tiles stay in the second-level cache, more read the weights less often.
constexpr int64_t kTilesAStep = 64;
static_assert(kTilesAStep <= kWinogradMostTiles);

/// The number of tiles per step, so that a slice's steps are as even as possible.
int64_t tiles_a_step(int64_t tiles) {
  return divide_up(tiles, divide_up(tiles, kTilesAStep));
}

WinogradImages images_of(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const int64_t channels = shape[3];
  const int64_t pixels = shape[1] * shape[2];
  const int64_t block = tensor.layout() == Layout::kPlain ? channels : layout_block(tensor.layout());
  return {tensor.raw(),
          tensor.dtype() == DType::kBF16,
          shape[1],
          shape[2],
          pixels * channels,
          pixels * block,
          block,
          block};
}

/// The tiles of a pass's result, with the padding of its input. For backward weights, those of the forward pass.
WinogradTiles tiles_of(ConvPass pass, const Conv2dShape& s) {
  const bool data = pass == ConvPass::kBackwardData;
  const auto count = [](int64_t pixels, int64_t apart) {
    return divide_up(divide_up(pixels, apart), kWinogradTile);
  };
  const auto padding = [&](size_t axis) {
    return data ? 2 * s.dilation[axis] - s.padding[axis] : s.padding[axis];
  };
  return {count(data ? s.h : s.oh, s.dilation[0]),
          count(data ? s.w : s.ow, s.dilation[1]),
          padding(0),
          padding(1),
          s.dilation[0],
          s.dilation[1]};
}

WinogradTiles unpadded(WinogradTiles tiles) {
  tiles.pad_top = tiles.pad_left = 0;
  return tiles;
}

/// Lays out a transformed range at `data`; returns how many floats it needs.
int64_t lay_out(WinogradRange& range, int64_t tiles, int64_t row, float* data) {
  range.data = data;
  range.row = row;
  range.plane = tiles * row + kPlanesApart;
  return kWinogradFrequencies * range.plane;
}

/// G g G^T of all weights: for every frequency, panel after panel.
Tensor transformed_weights(const WinogradWeights& weights) {
  const int64_t panel = block_product().panel;
  const int64_t panels = divide_up(weights.outs, panel);
  const int64_t plane = panels * weights.ins * panel;
  Tensor all = Tensor::empty({kWinogradFrequencies * plane});
  parallel_slices(panels, [&](int64_t index) {
    winograd_kernels().weights(weights, index * panel, panel, all.data<float>() + index * weights.ins * panel,
                               plane);
  });
  return all;
}

/// Forward, or backward data, which is a forward pass with flipped weights.
void convolve(const WinogradWeights& weights, const Tensor& held_weights, const KernelChoice& choice,
              const Tensor& x, const WinogradTiles& tiles, const float* bias, const Tensor& y,
              Activation activation) {
  const WinogradKernels& kernels = winograd_kernels();
  const auto form = static_cast<uint64_t>(ConstantForm::kWinograd) + (weights.flipped ? 1 : 0);
  const Tensor u = cached_or(held_weights, form, [&] { return transformed_weights(weights); });
  const WinogradImages in = images_of(x), out = images_of(y);
  const BlockProduct& product = block_product();
  const int64_t panel = product.panel;
  const int64_t u_plane = u.elements() / kWinogradFrequencies;
  const int64_t images = x.shape()[0];
  const int64_t tiles_an_image = tiles.an_image();
  const int64_t most_tiles = std::min(images, choice.images) * tiles_an_image;
  const ImageCut cut(choice, images, most_tiles, kWinogradTilesAPart, divide_up(weights.outs, panel));
  const int64_t step = tiles_a_step(divide_up(most_tiles, cut.down));
  parallel_slices(cut.slices(), [&](int64_t slice) {
    const int64_t first = cut.group(slice) * choice.images;
    const Range range = cut.positions(slice, std::min(images - first, choice.images) * tiles_an_image);
    const Range outs = cut.channels(slice, weights.outs, panel);
    const int64_t outs_row = divide_up(outs.size(), panel) * panel;
    WinogradRange v, m;
    const int64_t floats = lay_out(v, step, weights.ins, nullptr) + lay_out(m, step, outs_row, nullptr);
    v.data =
        reinterpret_cast<float*>(worker_scratch(kWinogradSlot, static_cast<size_t>(floats) * sizeof(float)));
    m.data = v.data + kWinogradFrequencies * v.plane;
    v.first_channel = 0, v.channels = weights.ins;
    m.first_channel = outs.begin, m.channels = outs.size();
    for (int64_t tile = range.begin; tile < range.end; tile += step) {
      v.first_tile = m.first_tile = first * tiles_an_image + tile;
      v.tiles = m.tiles = std::min(step, range.end - tile);
      kernels.input(in, tiles, v);
      for (int64_t f = 0; f < kWinogradFrequencies; ++f) {
        for (int64_t o = 0; o < outs_row; o += panel) {
          product.run({v.data + f * v.plane, v.row, 1},
                      u.data<float>() + f * u_plane + (outs.begin + o) * weights.ins, panel, weights.ins,
                      m.data + f * m.plane + o, m.row, v.tiles, panel, false);
        }
      }
      kernels.output(m, out, unpadded(tiles), bias == nullptr ? nullptr : bias + outs.begin, activation);
    }
  });
}

constexpr int64_t kTaps = 9;

/// The gradient of the weights, in parts. Every slice handles some images, some input and some output
/// channels; add_up() adds the sums of the image parts.
class WeightsGradient {
 public:
  WeightsGradient(const Conv2dShape& shape, const KernelChoice& choice, const Tensor& x, const Tensor& dy)
      : s_(shape),
        images_a_part_(choice.images),
        x_(images_of(x)),
        dy_(images_of(dy)),
        tiles_(tiles_of(ConvPass::kBackwardWeights, s_)),
        image_parts_(divide_up(s_.n, choice.images)) {
    // Cut the input and output channels into parts that are as square as possible.
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(choice.parts)));
    in_parts_ = std::min(side, divide_up(s_.c, kWinogradChannels));
    out_parts_ = std::min(choice.parts / side, divide_up(s_.o, product_.panel));
    sums_ = Tensor::empty({image_parts_, s_.c, kTaps, s_.o});
    bias_sums_ = Tensor::zeros({image_parts_, s_.o});
  }
  int64_t slices() const { return image_parts_ * in_parts_ * out_parts_; }

  /// Computes one slice. Any thread. `bias`: also sums dy.
  void run(int64_t slice, bool bias) const {
    const int64_t image_part = slice / (in_parts_ * out_parts_);
    const int64_t in_part = slice / out_parts_ % in_parts_;
    const Range ins = part_of(s_.c, kWinogradChannels, in_parts_, in_part);
    const Range outs = part_of(s_.o, product_.panel, out_parts_, slice % out_parts_);
    const int64_t columns = divide_up(outs.size(), product_.panel) * product_.panel;
    const int64_t outs_row = columns + kPlanesApart;
    WinogradRange v, z;
    const int64_t step = tiles_a_step(std::min(s_.n, images_a_part_) * tiles_.an_image());
    const int64_t v_floats = lay_out(v, step, ins.size() + kPlanesApart, nullptr);
    const int64_t z_floats = lay_out(z, step, outs_row, nullptr);
    const int64_t d_plane = ins.size() * outs_row;
    const int64_t floats = v_floats + z_floats + kWinogradFrequencies * d_plane;
    v.data =
        reinterpret_cast<float*>(worker_scratch(kWinogradSlot, static_cast<size_t>(floats) * sizeof(float)));
    z.data = v.data + v_floats;
    float* const d = z.data + z_floats;
    v.first_channel = ins.begin, v.channels = ins.size();
    z.first_channel = outs.begin, z.channels = outs.size();
    float* const bias_sums =
        bias && in_part == 0 ? bias_sums_.data<float>() + image_part * s_.o + outs.begin : nullptr;
    const int64_t tiles_an_image = tiles_.an_image();
    const int64_t first = image_part * images_a_part_ * tiles_an_image;
    const int64_t last = std::min(s_.n, (image_part + 1) * images_a_part_) * tiles_an_image;
    for (int64_t tile = first; tile < last; tile += step) {
      v.first_tile = z.first_tile = tile;
      v.tiles = z.tiles = std::min(step, last - tile);
      kernels_.input(x_, tiles_, v);
      kernels_.gradient(dy_, unpadded(tiles_), z, bias_sums);
      for (int64_t f = 0; f < kWinogradFrequencies; ++f) {
        product_.run({v.data + f * v.plane, 1, v.row}, z.data + f * z.plane, z.row, v.tiles, d + f * d_plane,
                     outs_row, ins.size(), columns, tile != first);
      }
    }
    for (int64_t in = 0; in < ins.size(); ++in)
      kernels_.weights_gradient(d + in * outs_row, d_plane, outs.size(),
                                sums_at(image_part, ins.begin + in) + outs.begin, s_.o);
  }

  void add_up(float* dweight) const {
    constexpr int64_t kInsASlice = 8;
    parallel_ranges(s_.c, kInsASlice, [&](int64_t begin, int64_t end) {
      std::vector<float> row(static_cast<size_t>(kTaps * s_.o));
      for (int64_t in = begin; in < end; ++in) {
        std::copy_n(sums_at(0, in), kTaps * s_.o, row.data());
        for (int64_t part = 1; part < image_parts_; ++part) {
          const float* const more = sums_at(part, in);
          for (size_t i = 0; i < row.size(); ++i) row[i] += more[i];
        }
        for (int64_t out = 0; out < s_.o; ++out) {
          for (int64_t k = 0; k < kTaps; ++k)
            dweight[(out * s_.c + in) * kTaps + k] = row[static_cast<size_t>(k * s_.o + out)];
        }
      }
    });
  }

  void add_up_bias(float* dbias) const {
    for (int64_t out = 0; out < s_.o; ++out) {
      dbias[out] = 0;
      for (int64_t part = 0; part < image_parts_; ++part)
        dbias[out] += bias_sums_.data<float>()[part * s_.o + out];
    }
  }

 private:
  /// [tap][out] of one part of the images and one input channel.
  float* sums_at(int64_t image_part, int64_t in) const {
    return sums_.data<float>() + (image_part * s_.c + in) * kTaps * s_.o;
  }

  const WinogradKernels& kernels_ = winograd_kernels();
  const BlockProduct& product_ = block_product();
  Conv2dShape s_;
  int64_t images_a_part_;
  WinogradImages x_, dy_;
  WinogradTiles tiles_;
  int64_t image_parts_, in_parts_, out_parts_;
  Tensor sums_;       // [image part][in][tap][out]
  Tensor bias_sums_;  // [image part][out]
};

}  // namespace

bool winograd_fits(const Conv2dShape& s) {
  return s.groups == 1 && s.kh == 3 && s.kw == 3 && s.stride == std::array{1, 1} &&
         s.padding[0] <= 2 * s.dilation[0] && s.padding[1] <= 2 * s.dilation[1] && s.dilation[0] <= s.oh &&
         s.dilation[1] <= s.ow && s.c % kWinogradChannels == 0 && s.o % kWinogradChannels == 0;
}

int64_t winograd_tiles_an_image(ConvPass pass, const Conv2dShape& s) {
  return tiles_of(pass, s).an_image();
}

void winograd_forward(const Conv2dShape& s, const KernelChoice& choice, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const Tensor& y, Activation activation) {
  const WinogradWeights weights{weight.data<float>(), s.o, s.c, s.c * kTaps, kTaps, false};
  convolve(weights, weight, choice, x, tiles_of(ConvPass::kForward, s),
           bias.defined() ? bias.data<float>() : nullptr, y, activation);
}

void winograd_backward_data(const Conv2dShape& s, const KernelChoice& choice, const Tensor& dy,
                            const Tensor& weight, const Tensor& dx) {
  const WinogradWeights weights{weight.data<float>(), s.c, s.o, kTaps, s.c * kTaps, true};
  convolve(weights, weight, choice, dy, tiles_of(ConvPass::kBackwardData, s), nullptr, dx, Activation::kNone);
}

void winograd_backward_weights(const Conv2dShape& s, const KernelChoice& choice, const Tensor& x,
                               const Tensor& dy, float* dweight, float* dbias) {
  const WeightsGradient gradient(s, choice, x, dy);
  parallel_slices(gradient.slices(), [&](int64_t slice) { gradient.run(slice, dbias != nullptr); });
  gradient.add_up(dweight);
  if (dbias != nullptr) gradient.add_up_bias(dbias);
}

}  // namespace dlpipe::engine::cpu

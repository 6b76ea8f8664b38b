// The vector half of decoding a coefficient record, in Highway, chosen at run time for the CPU: from blocks to samples and from
// samples to RGB, with exactly the arithmetic of libjpeg's accurate integer path (jidctint, fancy upsampling, jdcolor), so that
// pixels are libjpeg-turbo's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "io/data/codec/coef/tile_reader.h"

namespace dlpipe::data::coef {

/// Bytes (elements of 16-bit rows) that kernels may read and write past a row's end.
inline constexpr size_t kRowPadding = 64;

struct alignas(64) QuantTable : std::array<int16_t, 64> {};  // natural order

struct Kernels {
  /// Dequantises and transforms blocks [first, first + count) of a tile to 8 rows of 8 * count samples,
  /// `stride` bytes apart; the rows need kRowPadding.
  void (*samples)(const TileBlocks& blocks, int first, int count, const QuantTable& quant, uint8_t* out,
                  ptrdiff_t stride);
  /// out[i] = near[i], or 3 * near[i] + far[i] with `far`: the input of widen().
  void (*columns)(const uint8_t* near, const uint8_t* far, int count, uint16_t* out);
  /// Twice as many columns: libjpeg's triangle filter. columns[-1] and columns[count] are also read. `vertical`: the columns
  /// were made with `far`.
  void (*widen)(const uint16_t* columns, int count, bool vertical, uint8_t* out);
  /// out[i] = (3 * near[i] + far[i] + bias) / 4.
  void (*between)(const uint8_t* near, const uint8_t* far, int bias, int count, uint8_t* out);
  /// Interleaved RGB; writes nothing past its end.
  void (*ycc_to_rgb)(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int count, uint8_t* rgb);
};

/// The kernels of the best instruction set that this CPU has.
const Kernels& kernels();
/// Chooses the kernels again, for tests that disable instruction sets in Highway.
Kernels best_kernels();

/// The same in plain C++: the reference that the tests compare with.
const Kernels& scalar_kernels();

}  // namespace dlpipe::data::coef

// JPEGs that a test describes, written by libjpeg.
#pragma once

// jpeglib.h needs stdio's FILE and size_t before it.
#include <cstdio>

#include <jpeglib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "dlpipe/random.h"

namespace dlpipe::data {

/// How a test's JPEG is written.
struct Hard {
  int width = 64;
  int height = 48;
  int channels = 3;
  int h = 2;  // luma's sampling factors
  int v = 2;
  int dc_quant = 16;
  int ac_quant = 16;
  bool progressive = false;
  int restart_rows = 0;
  bool noise = true;  // black and white, else a ramp
};

inline std::vector<std::byte> written(const Hard& hard) {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);  // a mistake of this test ends it
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = static_cast<JDIMENSION>(hard.width);
  jpeg.image_height = static_cast<JDIMENSION>(hard.height);
  jpeg.input_components = hard.channels;
  jpeg.in_color_space = hard.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg.dct_method = JDCT_ISLOW;
  std::array<unsigned int, 64> table;
  table.fill(static_cast<unsigned>(hard.ac_quant));
  table[0] = static_cast<unsigned>(hard.dc_quant);
  for (int i = 0; i < 2; ++i) jpeg_add_quant_table(&jpeg, i, table.data(), 100, FALSE);
  jpeg.comp_info[0].h_samp_factor = hard.channels == 1 ? 1 : hard.h;
  jpeg.comp_info[0].v_samp_factor = hard.channels == 1 ? 1 : hard.v;
  jpeg.restart_in_rows = hard.restart_rows;
  if (hard.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  RandomStream random(static_cast<uint64_t>(hard.width), 0);
  std::vector<uint8_t> row(static_cast<size_t>(hard.width) * static_cast<size_t>(hard.channels));
  for (int y = 0; y < hard.height; ++y) {
    for (size_t x = 0; x < row.size(); ++x)
      row[x] = hard.noise ? static_cast<uint8_t>(255 * random.below(2)) : static_cast<uint8_t>(x / 5 + 3 * y);
    uint8_t* rows[] = {row.data()};
    jpeg_write_scanlines(&jpeg, rows, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  const auto* first = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> bytes(first, first + size);
  std::free(memory);
  return bytes;
}

}  // namespace dlpipe::data

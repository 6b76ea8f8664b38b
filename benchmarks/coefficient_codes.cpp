// Counts the symbols of coefficient records over JPEG files and prints code_lengths.inc, the prefix codes
// that io/data/codec/coef was built with:
//   coefficient_codes FILE.jpg... > io/data/codec/coef/code_lengths.inc
// Changing that file changes the format: give it a new version.
#include <cstdio>

#include <jpeglib.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "io/data/codec/coef/record.h"
#include "io/data/codec/coef/tile_code.h"

namespace dlpipe::data::coef {
namespace {

using Counts = std::vector<double>;

struct Histograms {
  std::vector<std::vector<Counts>> dc;  // [class of plane][context][symbol]
  std::vector<Counts> token;            // [context][symbol]
  std::vector<Counts> mask;             // [context][mask]
  Histograms()
      : dc(kPlaneClasses, std::vector<Counts>(kDcContexts, Counts(kDcClasses, 0.02))),
        token(kTokenContexts, Counts(kTokens, 0.02)),
        mask(kMaskContexts, Counts(256, 0.02)) {
    // Symbols that can't be: no mask is empty, none of the first group holds the DC.
    for (int context = 0; context < kMaskContexts; ++context) {
      for (size_t symbol = 0; symbol < 256; ++symbol) {
        const bool first_group = context % (kMaskGroups * kMaskWidths) < kMaskWidths;
        if (symbol == 0 || (first_group && symbol % 2 == 1)) mask[context][symbol] = 0;
      }
    }
  }
};

void count_block(const BlockSymbols& block, int plane, int* dc_context, Histograms& all) {
  ++all.dc[plane][*dc_context][block.dc_class];
  *dc_context = block.dc_class;
  int before = kTokensBefore - 1;
  for (int group = 0; group < block.groups; ++group) {
    const int width = block.width[group];
    const int token = block.token[group];
    ++all.token[token_context(plane, group, before)][token];
    before = token;
    if (width > 0) ++all.mask[mask_context(plane, group, width)][block.mask[group]];
  }
  if (block.groups < kGroups) ++all.token[token_context(plane, block.groups, before)][kEnd];
}

void count_file(const std::string& path, Histograms& all) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(1);
  }
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);  // a corrupt file ends the program
  jpeg_create_decompress(&jpeg);
  jpeg_stdio_src(&jpeg, file);
  jpeg_read_header(&jpeg, TRUE);
  jvirt_barray_ptr* const arrays = jpeg_read_coefficients(&jpeg);
  for (int c = 0; c < jpeg.num_components; ++c) {
    const jpeg_component_info& component = jpeg.comp_info[c];
    for (JDIMENSION y = 0; y < component.height_in_blocks; ++y) {
      const JBLOCKARRAY row =
          (*jpeg.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&jpeg), arrays[c], y, 1, FALSE);
      int before = 0;
      int context = kDcContexts - 1;
      for (JDIMENSION x = 0; x < component.width_in_blocks; ++x) {
        if (x % kMaxTileBlocks == 0) {
          before = 0;
          context = kDcContexts - 1;
        }
        const int16_t* const block = row[0][x];
        count_block(symbols_of(ZigzagBlock(block), before), plane_class_of(c), &context, all);
        before = block[0];
      }
    }
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  std::fclose(file);
}

/// Lengths of the best prefix code of at most `longest` bits: package-merge (Larmore and Hirschberg, 1990).
std::string lengths_of(const Counts& counts, int longest) {
  struct Package {
    double count;
    std::vector<size_t> symbols;
  };
  std::vector<Package> leaves;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol) {
    if (counts[symbol] > 0) leaves.push_back({counts[symbol], {symbol}});
  }
  const auto lighter = [](const Package& a, const Package& b) { return a.count < b.count; };
  std::stable_sort(leaves.begin(), leaves.end(), lighter);
  std::vector<Package> row;
  for (int level = 0; level < longest; ++level) {
    std::vector<Package> next = leaves;
    for (size_t i = 0; i + 1 < row.size(); i += 2) {
      Package both = row[i];
      both.count += row[i + 1].count;
      both.symbols.insert(both.symbols.end(), row[i + 1].symbols.begin(), row[i + 1].symbols.end());
      next.push_back(std::move(both));
    }
    std::stable_sort(next.begin(), next.end(), lighter);
    row = std::move(next);
  }
  std::vector<int> lengths(counts.size(), 0);
  for (size_t i = 0; i < 2 * leaves.size() - 2; ++i) {
    for (const size_t symbol : row[i].symbols) ++lengths[symbol];
  }
  std::string text;
  for (const int length : lengths) text += "0123456789a"[length];
  return text;
}

void print_rows(const std::vector<Counts>& rows, int longest, const char* indent) {
  for (const Counts& counts : rows) {
    const std::string text = lengths_of(counts, longest);
    std::string line = indent;
    for (size_t at = 0; at < text.size(); at += 100)
      line += (at > 0 ? std::string("\n  ") + indent : "") + "\"" + text.substr(at, 100) + "\"";
    std::printf("%s,\n", line.c_str());
  }
}

void print_classes(const char* name, const std::vector<std::vector<Counts>>& classes, int longest) {
  std::printf("constexpr std::string_view %s[%zu][%zu] = {\n", name, classes.size(), classes[0].size());
  for (const auto& rows : classes) {
    std::printf("  {\n");
    print_rows(rows, longest, "    ");
    std::printf("  },\n");
  }
  std::printf("};\n");
}

}  // namespace
}  // namespace dlpipe::data::coef

int main(int count, char** arguments) {
  using namespace dlpipe::data::coef;
  if (count < 2) {
    std::fprintf(stderr, "usage: coefficient_codes FILE.jpg...\n");
    return 2;
  }
  Histograms all;
  for (int i = 1; i < count; ++i) count_file(arguments[i], all);
  std::printf("// Made by benchmarks/coefficient_codes from %d files; see there.\n", count - 1);
  print_classes("kDcLengths", all.dc, kDcMaxLength);
  std::printf("constexpr std::string_view kTokenLengths[%d] = {\n", kTokenContexts);
  print_rows(all.token, kTokenMaxLength, "  ");
  std::printf("};\n");
  std::printf("constexpr std::string_view kMaskLengths[%d] = {\n", kMaskContexts);
  print_rows(all.mask, kMaskMaxLength, "  ");
  std::printf("};\n");
  return 0;
}

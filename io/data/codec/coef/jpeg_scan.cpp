#include "io/data/codec/coef/jpeg_scan.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "io/data/codec/coef/bits.h"
#include "io/data/codec/jpeg.h"

namespace dlpipe::data::coef {
namespace {

using Bytes = std::span<const std::byte>;

struct HuffmanTable {
  /// For each symbol: its code << 8 | the code's length; 0: no code.
  std::array<uint32_t, 256> entry{};
};

/// The declarations of the segments before a scan.
struct Head {
  std::array<HuffmanTable, 4> dc;
  std::array<HuffmanTable, 4> ac;
  uint32_t restart_interval = 0;
  int frames = 0;
  bool sequential = false;
  int components = 0;
  std::array<uint8_t, kMaxComponents> id{};
  // The scan's components, in its order.
  int scan_components = 0;
  std::array<uint8_t, kMaxComponents> scan_component{};  // index into the frame's
  std::array<uint8_t, kMaxComponents> tables{};          // DC << 4 | AC
  size_t end = 0;                                        // of the scan's header
};

bool read_huffman(Bytes segment, Head& head) {
  while (!segment.empty()) {
    if (segment.size() < 17) return false;
    const uint32_t place = load_u8(segment, 0);
    if ((place & 15) > 3 || place >> 4 > 1) return false;
    HuffmanTable& table = (place >> 4 == 0 ? head.dc : head.ac)[place & 15];
    table = {};
    uint32_t code = 0;
    size_t at = 17;
    for (int length = 1; length <= 16; ++length, code <<= 1) {
      for (uint32_t i = 0; i < load_u8(segment, static_cast<size_t>(length)); ++i) {
        if (at >= segment.size() || code >= (1u << length)) return false;
        table.entry[load_u8(segment, at++)] = code++ << 8 | static_cast<uint32_t>(length);
      }
    }
    segment = segment.subspan(at);
  }
  return true;
}

bool read_frame_header(Bytes segment, uint32_t marker, Head& head) {
  if (segment.size() < 6) return false;
  ++head.frames;
  head.sequential = marker == 0xc0 || marker == 0xc1;
  head.components = load_u8(segment, 5);
  if (head.components < 1 || head.components > kMaxComponents ||
      segment.size() < 6 + 3 * static_cast<size_t>(head.components))
    return false;
  for (int c = 0; c < head.components; ++c) head.id[c] = load_u8(segment, 6 + 3 * static_cast<size_t>(c));
  return true;
}

bool read_scan_header(Bytes segment, Head& head) {
  if (segment.empty()) return false;
  head.scan_components = load_u8(segment, 0);
  if (head.scan_components != head.components ||
      segment.size() < 1 + 2 * static_cast<size_t>(head.scan_components))
    return false;
  for (int i = 0; i < head.scan_components; ++i) {
    const uint8_t id = load_u8(segment, 1 + 2 * static_cast<size_t>(i));
    int index = 0;
    while (index < head.components && head.id[index] != id) ++index;
    if (index == head.components) return false;
    head.scan_component[i] = static_cast<uint8_t>(index);
    head.tables[i] = load_u8(segment, 2 + 2 * static_cast<size_t>(i));
    if ((head.tables[i] & 15) > 3 || head.tables[i] >> 4 > 3) return false;
  }
  return true;
}

/// Everything up to the first scan's data. Plain files only: no fill bytes or rubbish between segments.
std::optional<Head> read_head(Bytes jpeg) {
  Head head;
  JpegSegments segments(jpeg);
  for (JpegSegments::Segment segment; segments.next(&segment) && segment.adjoins;) {
    const uint32_t marker = segment.marker;
    bool fine = true;
    if (marker == 0xc4) {
      fine = read_huffman(segment.body, head);
    } else if (marker == 0xdd) {
      fine = segment.body.size() >= 2;
      if (fine) head.restart_interval = load_be16(segment.body, 0);
    } else if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc8 && marker != 0xcc) {
      fine = read_frame_header(segment.body, marker, head);
    } else if (marker == JpegSegments::kStartOfScan) {
      head.end = segment.end;
      if (head.frames != 1 || !head.sequential || !read_scan_header(segment.body, head)) return std::nullopt;
      return head;
    }
    if (!fine) return std::nullopt;
  }
  return std::nullopt;
}

/// Writes bits from the most significant end. Separate from the memory that they are written to: the compiler has to assume
/// that a store of bytes may change any object in memory, so a loop would reload its own state for every value.
struct ScanCursor {
  std::byte* to;
  uint64_t held = 0;  // the next bits, from the most significant end
  int held_bits = 0;  // below 8 between calls

  DLPIPE_COEF_INLINE void put(uint32_t bits, int count) {  // 0 < count <= 32
    held |= uint64_t{bits} << (64 - count - held_bits);
    store_le(to, __builtin_bswap64(held));
    held_bits += count;
    to += held_bits / 8;
    held <<= held_bits & ~7;
    held_bits &= 7;
  }
  DLPIPE_COEF_INLINE bool put(const HuffmanTable& table, uint32_t symbol) {
    const uint32_t entry = table.entry[symbol];
    if (entry == 0) return false;
    put(entry >> 8, static_cast<int>(entry & 0xff));
    return true;
  }
  /// Writes the symbol of a size class, then the value's bits.
  DLPIPE_COEF_INLINE bool put_value(const HuffmanTable& table, int run, int value) {
    const int size = static_cast<int>(std::bit_width(static_cast<unsigned>(std::abs(value))));
    if (size > 15) return false;
    const uint32_t entry = table.entry[static_cast<size_t>(run << 4 | size)];
    if (entry == 0) return false;
    const uint32_t bits = static_cast<uint32_t>(value - (value < 0 ? 1 : 0)) & ((1u << size) - 1);
    put(entry >> 8 << size | bits, static_cast<int>(entry & 0xff) + size);
    return true;
  }
};

// Compiled twice: BMI2 shifts by a count in any register.
DLPIPE_COEF_INLINE bool put_symbols(ScanCursor& to, const HuffmanTable& dc, const HuffmanTable& ac,
                                    const ZigzagBlock& block, int dc_before) {
  ScanCursor out = to;
  if (!out.put_value(dc, 0, block.values[0] - dc_before)) return false;
  int last = 0;
  for (uint64_t left = block.nonzero & ~uint64_t{1}; left != 0; left &= left - 1) {
    const int at = std::countr_zero(left);
    int run = at - last - 1;
    for (; run > 15; run -= 16) {
      if (!out.put(ac, 0xf0)) return false;
    }
    if (!out.put_value(ac, run, block.values[static_cast<size_t>(at)])) return false;
    last = at;
  }
  if (last != 63 && !out.put(ac, 0)) return false;
  to = out;
  return true;
}

bool put_block_portable(ScanCursor& out, const HuffmanTable& dc, const HuffmanTable& ac,
                        const ZigzagBlock& block, int dc_before) {
  return put_symbols(out, dc, ac, block, dc_before);
}
DLPIPE_COEF_TARGET bool put_block_bmi2(ScanCursor& out, const HuffmanTable& dc, const HuffmanTable& ac,
                                       const ZigzagBlock& block, int dc_before) {
  return put_symbols(out, dc, ac, block, dc_before);
}

/// A scan's bytes, with a zero stuffed after every 0xff. This is done after each interval, because a check at each value would
/// be an unpredictable branch.
class ScanWriter {
 public:
  /// Returns false when a table has no code for a value of the block.
  bool put(const HuffmanTable& dc, const HuffmanTable& ac, const ZigzagBlock& block, int dc_before) {
    static const auto put_block = Deposit::available() ? put_block_bmi2 : put_block_portable;
    reserve();
    return put_block(cursor_, dc, ac, block, dc_before);
  }
  void restart(uint32_t number) {
    end_interval();
    bytes_.push_back(std::byte{0xff});
    bytes_.push_back(static_cast<std::byte>(0xd0 + (number & 7)));
  }
  std::vector<std::byte> take() {
    end_interval();
    return std::move(bytes_);
  }

 private:
  /// Ensures space for one block: 64 values, each a code (16 bits) and its own bits (15), and for the last store.
  void reserve() {
    constexpr size_t kBlockBytes = 64 * 31 / 8 + 2 * sizeof(uint64_t);
    const auto size = static_cast<size_t>(cursor_.to - raw_.data());
    if (raw_.size() >= size + kBlockBytes) return;
    raw_.resize(2 * raw_.size() + 4096);
    cursor_.to = raw_.data() + size;
  }
  /// Writes ones up to the end of a byte, then the interval's bytes, stuffed.
  void end_interval() {
    reserve();
    if (const int missing = -cursor_.held_bits & 7; missing > 0) cursor_.put((1u << missing) - 1, missing);
    const std::byte* from = raw_.data();
    while (from < cursor_.to) {
      const auto left = static_cast<size_t>(cursor_.to - from);
      const auto* found = static_cast<const std::byte*>(std::memchr(from, 0xff, left));
      const std::byte* const until = found == nullptr ? cursor_.to : found + 1;
      bytes_.insert(bytes_.end(), from, until);
      if (found != nullptr) bytes_.push_back(std::byte{0});
      from = until;
    }
    cursor_.to = raw_.data();
  }

  std::vector<std::byte> bytes_;  // the finished intervals
  std::vector<std::byte> raw_;    // the current interval, up to the cursor
  ScanCursor cursor_{raw_.data()};
};

}  // namespace

std::optional<SourceScan> find_scan(std::span<const std::byte> jpeg) {
  const std::optional<Head> head = read_head(jpeg);
  if (!head) return std::nullopt;
  for (size_t at = head->end; at + 1 < jpeg.size(); ++at) {
    const void* const found = std::memchr(jpeg.data() + at, 0xff, jpeg.size() - 1 - at);
    if (found == nullptr) return std::nullopt;
    at = static_cast<size_t>(static_cast<const std::byte*>(found) - jpeg.data());
    const uint32_t next = load_u8(jpeg, at + 1);
    const bool is_data = next == 0 || (next >= 0xd0 && next <= 0xd7);
    if (is_data) continue;
    if (next != 0xd9) return std::nullopt;
    return SourceScan{head->end, at};
  }
  return std::nullopt;
}

struct SourceScanWriter::State {
  State(const Frame& frame_in, Head head_in) : frame(frame_in), head(std::move(head_in)) {}

  bool is_interleaved() const { return head.scan_components > 1; }
  void begin_mcu();
  bool put(int i, const ZigzagBlock& block);
  bool put_filling(int i);
  bool put_mcu(int x, const ZigzagRow& blocks);

  const Frame& frame;
  const Head head;
  ScanWriter out;
  std::array<int, kMaxComponents> dc_before{};
  uint32_t written = 0;  // MCUs
};

void SourceScanWriter::State::begin_mcu() {
  if (head.restart_interval > 0 && written > 0 && written % head.restart_interval == 0) {
    out.restart(written / head.restart_interval - 1);
    dc_before = {};
  }
  ++written;
}

/// A block of the scan's component `i`.
bool SourceScanWriter::State::put(int i, const ZigzagBlock& block) {
  const int before = std::exchange(dc_before[i], block.values[0]);
  return out.put(head.dc[head.tables[i] >> 4], head.ac[head.tables[i] & 15], block, before);
}

bool SourceScanWriter::State::put_filling(int i) {
  ZigzagBlock filling;
  filling.values[0] = static_cast<int16_t>(dc_before[i]);
  filling.nonzero = 0;
  return put(i, filling);
}

bool SourceScanWriter::State::put_mcu(int x, const ZigzagRow& blocks) {
  for (int i = 0; i < head.scan_components; ++i) {
    const int c = head.scan_component[i];
    const Component& component = frame.component[c];
    for (int y = 0; y < component.v; ++y) {
      const std::span<const ZigzagBlock> row = blocks.blocks(c, y);
      for (int at = x * component.h; at < (x + 1) * component.h; ++at) {
        const auto place = static_cast<size_t>(at);
        if (!(place < row.size() ? put(i, row[place]) : put_filling(i))) return false;
      }
    }
  }
  return true;
}

SourceScanWriter::SourceScanWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
SourceScanWriter::SourceScanWriter(SourceScanWriter&&) noexcept = default;
SourceScanWriter& SourceScanWriter::operator=(SourceScanWriter&&) noexcept = default;
SourceScanWriter::~SourceScanWriter() = default;

std::optional<SourceScanWriter> SourceScanWriter::begin(const Frame& frame,
                                                        std::span<const std::byte> head_bytes) {
  std::optional<Head> head = read_head(head_bytes);
  if (!head || head->components != frame.components) return std::nullopt;
  return SourceScanWriter(std::make_unique<State>(frame, std::move(*head)));
}

bool SourceScanWriter::put(int row, const ZigzagRow& blocks) {
  State& s = *state_;
  if (s.is_interleaved()) {
    const int wide = divide_up(s.frame.width, 8 * s.frame.max_h);
    for (int x = 0; x < wide; ++x) {
      s.begin_mcu();
      if (!s.put_mcu(x, blocks)) return false;
    }
    return true;
  }
  for (int y = 0; y < s.frame.block_rows(0, row); ++y) {  // a block is an MCU
    for (const ZigzagBlock& block : blocks.blocks(0, y)) {
      s.begin_mcu();
      if (!s.put(0, block)) return false;
    }
  }
  return true;
}

std::vector<std::byte> SourceScanWriter::take() {
  return state_->out.take();
}

std::optional<std::vector<std::byte>> write_scan(const Frame& frame, std::span<const std::byte> head,
                                                 BlockSource block, void* context) {
  std::optional<SourceScanWriter> writer = SourceScanWriter::begin(frame, head);
  if (!writer) return std::nullopt;
  ZigzagRow blocks;
  for (int row = 0; row < frame.mcu_rows; ++row) {
    blocks.fill(frame, row, block, context);
    if (!writer->put(row, blocks)) return std::nullopt;
  }
  return writer->take();
}

}  // namespace dlpipe::data::coef

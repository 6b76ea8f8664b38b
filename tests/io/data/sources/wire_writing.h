// Protocol buffers and TFRecords as tests need them.
#pragma once

#include <cstdint>
#include <string>

namespace dlpipe::data {

inline std::string wire_varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string wire_bytes(uint32_t number, const std::string& bytes) {
  return wire_varint(number << 3 | 2) + wire_varint(bytes.size()) + bytes;
}
inline std::string wire_number(uint32_t number, uint64_t value) {
  return wire_varint(number << 3) + wire_varint(value);
}

inline std::string example_feature(const std::string& key, const std::string& list) {
  return wire_bytes(1, wire_bytes(1, key) + wire_bytes(2, list));
}
inline std::string bytes_feature(const std::string& key, const std::string& value) {
  return example_feature(key, wire_bytes(1, wire_bytes(1, value)));
}
inline std::string number_feature(const std::string& key, uint64_t value, bool packed = true) {
  return example_feature(key,
                         wire_bytes(3, packed ? wire_bytes(1, wire_varint(value)) : wire_number(1, value)));
}

inline std::string le_bytes(uint64_t value, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

/// CRC-32C, bit by bit, masked.
inline uint32_t crc_of(const std::string& bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

inline std::string tfrecord(const std::string& features) {
  const std::string record = wire_bytes(1, features);
  const std::string length = le_bytes(record.size(), 8);
  return length + le_bytes(crc_of(length), 4) + record + le_bytes(crc_of(record), 4);
}

}  // namespace dlpipe::data

// Tar archives as tests need them, made of text: right and wrong ones.
#pragma once

#include <cstdio>
#include <string>

namespace dlpipe::data {

inline std::string padded(std::string text) {
  text.resize((text.size() + 511) / 512 * 512);
  return text;
}

/// A ustar header; `magic` "ustar" with POSIX's zero byte, or as GNU writes it.
inline std::string tar_header(const std::string& name, size_t size, char type = '0',
                              const std::string& link = {}, const std::string& prefix = {}) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char octal[13];
  std::snprintf(octal, sizeof octal, "%011zo", size);
  header.replace(100, 7, "0000644");
  header.replace(108, 7, "0000000");
  header.replace(116, 7, "0000000");
  header.replace(124, 11, octal);
  header.replace(136, 11, "00000000000");
  header.replace(148, 8, "        ");
  header[156] = type;
  header.replace(157, link.size(), link);
  header.replace(257, 8,
                 std::string("ustar\0"
                             "00",
                             8));
  header.replace(345, prefix.size(), prefix);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  header.replace(148, 7, std::string(octal, 6) + '\0');
  return header;
}

inline std::string tar_file(const std::string& name, const std::string& bytes) {
  return tar_header(name, bytes.size()) + padded(bytes);
}

/// With what pax says about the file behind it, "path=...\n" in its own form.
inline std::string pax_record(const std::string& key, const std::string& value) {
  size_t size = key.size() + value.size() + 3;
  while (std::to_string(size).size() + key.size() + value.size() + 3 != size)
    size = std::to_string(size).size() + key.size() + value.size() + 3;
  return std::to_string(size) + " " + key + "=" + value + "\n";
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace dlpipe::data

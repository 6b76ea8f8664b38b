// A text file as sequences of characters: record i holds length + 1 tokens from place i * length on, so that every character is
// predicted once per epoch from those before it in its record. Characters are numbered in code point order; if a text has
// more than 256 different ones, or is not UTF-8, tokens are its bytes.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

constexpr size_t kMostTokens = 256;  // a token is a byte
constexpr uint64_t kMostBytes = uint64_t{4} << 30;

/// Calls `take` with each character; returns false if the text is not UTF-8.
template <class Take>
bool for_characters(std::string_view text, Take take) {
  for (size_t at = 0; at < text.size();) {
    const size_t count = utf8_bytes(text, at);
    if (count == 0) return false;
    take(text.substr(at, count));
    at += count;
  }
  return true;
}

class TextSource final : public Source {
 public:
  TextSource(std::string path, int64_t length) : path_(std::move(path)), length_(length) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;

 private:
  void number_bytes(std::string_view text, SourceListing& listing);
  /// False if there are too many.
  bool number_characters(std::string_view text, SourceListing& listing);

  std::string path_;
  int64_t length_;
  FileStamp stamp_;
  std::vector<std::byte> tokens_;
};

void TextSource::number_bytes(std::string_view text, SourceListing& listing) {
  for (size_t value = 0; value < kMostTokens; ++value) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    listing.classes.push_back({'0', 'x', kDigits[value / 16], kDigits[value % 16]});
  }
  const auto bytes = std::as_bytes(std::span(text));
  tokens_.assign(bytes.begin(), bytes.end());
}

bool TextSource::number_characters(std::string_view text, SourceListing& listing) {
  std::map<std::string_view, std::byte> numbers;  // UTF-8 sorts as its code points do
  size_t count = 0;
  const bool utf8 = for_characters(text, [&](std::string_view character) {
    ++count;
    if (numbers.size() <= kMostTokens) numbers[character] = {};
  });
  if (!utf8 || numbers.size() > kMostTokens) return false;
  for (auto& [character, number] : numbers) {
    number = static_cast<std::byte>(listing.classes.size());
    listing.classes.emplace_back(character);
  }
  tokens_.reserve(count);
  for_characters(text, [&](std::string_view character) { tokens_.push_back(numbers[character]); });
  return true;
}

Result<SourceListing> TextSource::list() {
  DLPIPE_ASSIGN_OR_RETURN(stamp_, stamp_file(path_));
  const uint64_t most = std::min(kMostBytes, available_memory_bytes() / 2);  // once as text, once as tokens
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(path_, stamp_, most));
  const std::string_view text = without_mark({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  SourceListing listing;
  listing.in_sequence = true;
  listing.tokens = length_ + 1;
  tokens_.clear();
  if (!number_characters(text, listing)) {
    listing.classes.clear();
    number_bytes(text, listing);
    listing.warnings.push_back(concat("[ingest] ", printable(path_), " is read as text; it has more than ",
                                      kMostTokens,
                                      " different characters or is not UTF-8, so its tokens are bytes"));
  } else {
    // Lists are text files, too: users who wanted one need to know.
    listing.warnings.push_back(concat("[ingest] ", printable(path_), " is read as a text of ",
                                      counted(static_cast<int64_t>(tokens_.size()), "character"), ", ",
                                      listing.classes.size(), " different ones"));
  }
  const int64_t count = (static_cast<int64_t>(tokens_.size()) - 1) / length_;
  if (count < 1) {
    return misuse("ingest", path_, " is read as a text and has ",
                  counted(static_cast<int64_t>(tokens_.size()), "token"), ", but --length needs ",
                  length_ + 1, " per sequence; use a smaller --length");
  }
  const std::string name = std::filesystem::path(path_).filename().string();
  for (int64_t i = 0; i < count; ++i) {
    SourceEntry entry;
    entry.path = numbered_path(name, static_cast<size_t>(i), 9);
    entry.size_bytes = static_cast<uint64_t>(listing.tokens);
    entry.modified_ns = stamp_.modified_ns;
    entry.place = static_cast<uint64_t>(i * length_);
    listing.entries.push_back(std::move(entry));
  }
  return listing;
}

Result<std::vector<std::byte>> TextSource::read(const SourceEntry& entry) const {
  const auto first = tokens_.begin() + static_cast<ptrdiff_t>(entry.place);
  return std::vector<std::byte>(first, first + static_cast<ptrdiff_t>(entry.size_bytes));
}

int recognizes_text(const SourceOptions& options) {
  const std::string extension = std::filesystem::path(options.path).extension().string();
  constexpr std::array kExtensions = {".txt", ".text", ".md"};
  return options.manifest.empty() &&
                 std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end()
             ? 2
             : 0;
}

Result<std::unique_ptr<Source>> open_text(const SourceOptions& options) {
  if (options.length < 1 || options.length > 1'000'000) {
    return misuse("ingest", "--length ", options.length, "; give 1 to 1000000 tokens per sequence");
  }
  return std::unique_ptr<Source>(std::make_unique<TextSource>(options.path, options.length));
}

}  // namespace

extern const SourceRecord text_source;
const SourceRecord text_source = {"text", "a text file (.txt, .text, .md): sequences of --length characters",
                                  recognizes_text, open_text};

}  // namespace dlpipe::data

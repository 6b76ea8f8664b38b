#include "cli/output.h"

#include <locale.h>  // newlocale
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>  // wcwidth

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <utility>

#include "base/counters.h"
#include "base/messages.h"
#include "base/mutex.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/log.h"
#include "io/formats/atomic_file.h"

namespace dlpipe::cli {

static OutputOptions output_options;

void set_output(const OutputOptions& options) {
  output_options = options;
}

bool is_quiet() {
  return output_options.is_quiet;
}

// Columns and lines.

// The character that begins at `at`, or the byte if none does.
static std::string_view character_at(std::string_view text, size_t at) {
  return text.substr(at, std::max<size_t>(utf8_bytes(text, at), 1));
}

size_t columns(std::string_view text) {
  // the C library's table, whatever the user's locale is
  static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  const locale_t before = utf8 == nullptr ? nullptr : ::uselocale(utf8);
  size_t count = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    wchar_t wide = 0;
    std::mbstate_t state{};
    const bool is_known = character.size() > 1 &&
                          std::mbrtowc(&wide, character.data(), character.size(), &state) == character.size();
    const int width = is_known ? ::wcwidth(wide) : 1;
    count += width < 0 ? 1 : static_cast<size_t>(width);
    at += character.size();
  }
  if (before != nullptr) ::uselocale(before);
  return count;
}

std::string wrap(const std::string& text, size_t width, size_t indent) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::string gap = "\n" + std::string(indent, ' ');
  std::string wrapped, line = text.substr(0, begin);
  bool has_word = false;
  for (const std::string& word : split(std::string_view(text).substr(begin), ' ')) {
    if (has_word && columns(line) + 1 + columns(word) > width) {
      wrapped += line + gap;
      line.clear();
      has_word = false;
    }
    line += (has_word ? " " : "") + word;
    has_word = has_word || !word.empty();
  }
  return wrapped + line;
}

// Replaces the blanks of a command while a line is wrapped; printable text has none of its own (printable_lines).
constexpr char kBlank = '\x1f';

/// Commands, in backticks or after ": dlpipe", stay on one line, however long, so that they can be copied.
static std::string with_whole_commands(std::string line) {
  bool in_backticks = false, is_command = false;
  for (size_t i = 0; i < line.size(); ++i) {
    in_backticks ^= line[i] == '`';
    if (line.compare(i, 9, ": dlpipe ") == 0) {
      is_command = true;
      ++i;  // the blank in front of it
      continue;
    }
    if (line[i] == ';') is_command = false;
    if (line[i] == ' ' && (in_backticks || is_command)) line[i] = kBlank;
  }
  return line;
}

/// Like wrap, but doesn't break commands, however long: in backticks, or after ": dlpipe".
static std::string wrap_sentences(const std::string& line, size_t width, size_t indent) {
  std::string wrapped = wrap(with_whole_commands(line), width, indent);
  std::ranges::replace(wrapped, kBlank, ' ');
  return wrapped;
}

// The width of the terminal on stdout; 0 if unknown, as when mpirun gives its processes a terminal of its own and forwards their
// output to a file or a pipe.
static int64_t known_width() {
  int64_t columns = 0;
  const char* const wanted = std::getenv("COLUMNS");
  if (wanted != nullptr && parse_int(wanted, &columns) && columns > 0) return columns;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

size_t text_width() {
  constexpr int64_t kLeast = 40, kUsual = 80, kMost = 120;
  const int64_t known = known_width();
  return static_cast<size_t>(std::clamp(known > 0 ? known : kUsual, kLeast, kMost));
}

// stdout.

bool print_answer(std::string_view text) {
  return write_stdout(concat(printable_lines(text), text.ends_with('\n') ? "" : "\n"));
}

bool is_stdout(std::string_view file) {
  return file == "-" || file == kStdout || file == "/dev/fd/1" || file == "/proc/self/fd/1";
}

Status check_stdout_is_free(std::string_view area, std::string_view option, std::string_view file,
                            bool json) {
  if (!json || !is_stdout(file)) return {};
  return misuse(area, option, " - and --json both write to stdout; give ", option, " a file");
}

Status check_is_new(std::string_view area, const std::string& file) {
  std::error_code ignored;
  if (is_stdout(file) || formats::is_stream(file) || !std::filesystem::exists(file, ignored)) return {};
  return misuse(area, file, " exists already; remove it or choose another");
}

bool write_stdout(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return true;
  const int error_number = errno;
  const bool has_hung_up = error_number == EIO && ::isatty(STDOUT_FILENO) == 0 && errno == EIO;  // a terminal
  if (error_number == EPIPE || has_hung_up) return false;
  throw Error(status_from_errno("cli", "cannot write to stdout", error_number));
}

bool StdoutText::write(std::string_view piece) {
  if (::isatty(STDOUT_FILENO) == 0) return write_stdout(piece);
  held_ += piece;
  size_t whole = held_.size();  // without the beginning of an incomplete character
  constexpr size_t kMostBytes = 4;
  for (size_t back = 1; back < kMostBytes && back <= held_.size(); ++back) {
    const auto byte = static_cast<unsigned char>(held_[held_.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t bytes = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    if (bytes > back) whole -= back;
    break;
  }
  const std::string safe = printable_lines(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return write_stdout(safe);
}

bool StdoutText::finish() {
  return write_stdout(printable_lines(std::exchange(held_, {})) + "\n");
}

bool fits_stdout(std::string_view line) {
  return ::isatty(STDOUT_FILENO) != 1 || known_width() == 0 || columns(line) <= text_width();
}

std::string prose(const std::string& text, size_t indent) {
  std::string all;
  for (const std::string& line : split(text, '\n'))
    all += (fits_stdout(line) ? line : wrap_sentences(line, text_width() - indent, indent)) + "\n";
  all.pop_back();  // that of the last line
  return all;
}

// An id is a word, even if it begins with a digit.
static bool is_hexadecimal_word(std::string_view cell) {
  const auto all = [&](auto is) {
    return std::all_of(cell.begin(), cell.end(), [&](unsigned char c) { return is(c) != 0; });
  };
  return all([](unsigned char c) { return std::isxdigit(c); }) &&
         !all([](unsigned char c) { return std::isdigit(c); });
}

static bool looks_numeric(std::string_view cell) {
  if (cell.empty() || is_hexadecimal_word(cell)) return false;
  return std::isdigit(static_cast<unsigned char>(cell[0])) ||
         ((cell[0] == '-' || cell[0] == '+') && cell.size() > 1);
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (c == widths.size()) {
        widths.push_back(0);
        numeric.push_back(rows.size() > 1);
      }
      widths[c] = std::max(widths[c], columns(rows[r][c]));
      if (r > 0 && !rows[r][c].empty() && !looks_numeric(rows[r][c])) numeric[c] = false;
    }
  }
  size_t wide = 2 * (widths.empty() ? 0 : widths.size() - 1);
  for (const size_t width : widths) wide += width;
  const std::string gap = fits_stdout(std::string(wide, ' ')) ? "  " : " ";
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < rows[r].size(); ++c) {
      const std::string pad(widths[c] - columns(rows[r][c]), ' ');
      line += (c ? gap : "") + (numeric[c] ? pad + rows[r][c] : rows[r][c] + pad);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
    if (r == 0) {
      for (size_t c = 0; c < widths.size(); ++c) text += (c ? gap : "") + std::string(widths[c], '-');
      text += "\n";
    }
  }
  return text;
}

// stderr.

bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

/// Whether to use colours, by --color.
static bool stderr_has_color() {
  const Colors colors = value_or_throw(value_named(kColorNames, output_options.color, "cli", "--color"));
  if (colors != Colors::kAuto) return colors == Colors::kAlways;
  const auto value = [](const char* name) {
    const char* const found = std::getenv(name);
    return std::string_view(found == nullptr ? "" : found);
  };
  return stderr_is_terminal() && value("NO_COLOR").empty() && value("TERM") != "dumb";
}

/// The width of the terminal on stderr; 0 if it is not a terminal, or its width is unknown.
static size_t stderr_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string fit_terminal(const std::string& line) {
  const size_t width = stderr_width();
  if (width < 2) return line;
  const size_t most = width - 1;  // a full line may wrap already
  size_t end = 0;
  for (size_t used = 0; end < line.size();) {
    const std::string_view character = character_at(line, end);
    used += columns(character);
    if (used > most) break;
    end += character.size();
  }
  return line.substr(0, end);
}

/// On a terminal, long lines are wrapped between words, without breaking commands, and continue after two blanks. Elsewhere a line
/// stays one line, for grep.
static std::string stderr_prose(const std::string& text) {
  constexpr size_t kIndent = 2, kLeast = 20;
  const size_t width = stderr_width();
  if (width < kLeast) return text;
  std::string all;
  for (const std::string& line : split(text, '\n'))
    all += (columns(line) <= width ? line : wrap_sentences(line, width - kIndent, kIndent)) + "\n";
  all.pop_back();  // that of the last line
  return all;
}

static void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (!text.ends_with('\n')) std::fputc('\n', stderr);
}

static void print_stderr(std::string_view text) {
  constexpr size_t kMost = 64 << 10;  // for lists of files and reasons, which have no limit of their own
  write_stderr(stderr_prose(printable_lines(shortened(text, kMost))));
}

void print_note(std::string_view text) {
  if (!is_quiet()) print_stderr(text);
}

void print_beside(std::string_view file, std::string_view text) {
  is_stdout(file) ? print_stderr(text) : static_cast<void>(print_answer(text));
}

namespace {

/// Warnings come from the log, too, on any thread.
struct Warnings {
  Mutex mutex;
  std::vector<std::string> given DLPIPE_GUARDED_BY(mutex);
};
Warnings& warnings() {
  static Warnings all;
  return all;
}

}  // namespace

/// Keeps a warning that was shown, for the key `warnings` of --json. Any thread.
static void keep_warning(std::string_view text) {
  if (text.starts_with(kWarningHead)) text.remove_prefix(kWarningHead.size());
  Warnings& all = warnings();
  const MutexLock lock(all.mutex);
  all.given.emplace_back(text);
}

std::vector<std::string> given_warnings() {
  Warnings& all = warnings();
  const MutexLock lock(all.mutex);
  return all.given;
}

void print_warning(std::string_view text) {
  print_stderr(text);
  keep_warning(text);
}

void print_error(std::string_view text) {
  const std::string name = "dlpipe:";
  const std::string shown = stderr_prose(concat(name, " ", printable_lines(text)));
  std::fputs(stderr_has_color() ? "\x1b[31mdlpipe:\x1b[0m" : name.c_str(), stderr);
  write_stderr(std::string_view(shown).substr(name.size()));
}

// The log.

static spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

static void log_to_spdlog(LogLevel level, std::string_view message) {
  if (stderr_is_terminal()) std::fputs("\r\x1b[K", stderr);  // erases a progress line, which is drawn again
  const auto name = spdlog::level::to_string_view(spdlog_level(level));
  const std::string head =
      concat(std::string_view(name.data(), name.size()), ": ");  // as the log's pattern adds it
  const std::string shown = stderr_prose(concat(head, printable_lines(message)));
  spdlog::default_logger_raw()->log(spdlog_level(level), "{}", shown.substr(head.size()));
  if (level == LogLevel::kWarning) keep_warning(message);
}

/// The level in DLPIPE_LOG; `usual` if it is unset or empty, or, with a warning, if it is not a level.
static spdlog::level::level_enum wanted_level(spdlog::level::level_enum usual, bool warns) {
  const char* const variable = std::getenv("DLPIPE_LOG");
  std::string name = variable == nullptr ? "" : variable;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.empty()) return usual;
  const auto level = spdlog::level::from_str(name);  // "off" for an unknown word
  if (level != spdlog::level::off || name == "off") return level;
  if (warns)
    print_warning(concat("dlpipe: DLPIPE_LOG is '", variable,
                         "', which is not a level; use debug, info, warning or error"));
  return usual;
}

void install_log_sink(bool is_first_process) {
  const auto color = stderr_has_color() ? spdlog::color_mode::always : spdlog::color_mode::never;
  auto logger = std::make_shared<spdlog::logger>(
      "dlpipe", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(color));
  logger->set_pattern("%^%l%$: %v");
  logger->set_level(wanted_level(is_quiet() ? spdlog::level::warn : spdlog::level::info, is_first_process));
  spdlog::set_default_logger(std::move(logger));
  set_log_function(log_to_spdlog);
}

// Progress.

static std::string progress_bar(int64_t done, int64_t total) {
  constexpr int64_t kCells = 24;
  const int64_t full = total > 0 ? std::clamp<int64_t>(done * kCells / total, 0, kCells) : 0;
  return concat("[", std::string(static_cast<size_t>(full), '#'),
                std::string(static_cast<size_t>(kCells - full), '-'), "]");
}

/// "[######------] 640/5,000  350 samples/s  eta 12s", or without a bar "ingest 640/5,000 ...".
static std::string progress_text(std::string_view what, const Progress& p, bool with_bar) {
  constexpr double kManyDigits = 100;
  return concat(with_bar ? progress_bar(p.done, p.total) : std::string(what), " ", human_count(p.done), "/",
                human_count(p.total), "  ", fixed(p.samples_per_s, p.samples_per_s < kManyDigits ? 1 : 0),
                " samples/s", p.remaining_s < 0 ? "" : concat("  eta ", human_seconds(p.remaining_s)),
                p.more.empty() ? "" : "  ", p.more);
}

ProgressLine::ProgressLine() : is_terminal_(stderr_is_terminal()), begin_ns_(now_ns()) {}

ProgressLine::~ProgressLine() {
  end();
}

void ProgressLine::show(const std::string& text) {
  if (is_quiet()) return;
  if (!is_terminal_) return print_note(text);
  std::fprintf(stderr, "\r%s\x1b[K", fit_terminal(text).c_str());
  std::fflush(stderr);
  is_open_ = true;
}

void ProgressLine::show(std::string_view what, Progress progress) {
  constexpr int64_t kSoonNs = 1'000'000'000;  // work that ends before shows only its end
  constexpr int64_t kTerminalNs = 100'000'000;
  constexpr int64_t kPlainNs = 5'000'000'000;
  const int64_t now = now_ns();
  const bool is_last = progress.done == progress.total;
  if (!is_last && now - begin_ns_ < kSoonNs) return;
  if (!is_last && now - shown_ns_ < (is_terminal_ ? kTerminalNs : kPlainNs)) return;
  shown_ns_ = now;
  if (progress.samples_per_s == 0)
    progress.samples_per_s =
        static_cast<double>(progress.done) / (static_cast<double>(now - begin_ns_) * 1e-9);
  if (progress.remaining_s < 0 && progress.samples_per_s > 0)
    progress.remaining_s = static_cast<double>(progress.total - progress.done) / progress.samples_per_s;
  show(progress_text(what, progress, is_terminal_));
}

void ProgressLine::end() {
  if (is_open_) std::fputc('\n', stderr);
  is_open_ = false;
}

void ProgressLine::clear() {
  if (is_open_) std::fputs("\r\x1b[K", stderr);
  is_open_ = false;
}

}  // namespace dlpipe::cli

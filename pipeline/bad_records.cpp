#include "dlpipe/pipeline/bad_records.h"

#include <fcntl.h>

#include <fstream>
#include <span>
#include <string_view>

#include "dlpipe/base/aside_file.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

namespace {

constexpr std::string_view kTitle = "# sample\tepoch\tposition\tused instead\treason\n";

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return text;
}

Status quarantine_error(const Status& status) {
  return {status.code(),
          concat("[loader] cannot write the quarantine file: ", without_area(status.message()))};
}

}  // namespace

Status BadRecords::book(int64_t epoch, std::span<const Substitution> substitutions) {
  for (const Substitution& bad : substitutions) {
    samples_.insert(bad.bad_sample);
    if (!quarantine_file_.empty()) DLPIPE_RETURN_IF_ERROR(append(epoch, bad));
    if (count() > max_bad_) {
      return Status(
          ErrorCode::kCorrupt,
          concat("[loader] ", count(), " bad samples, more than --max-bad ", max_bad_, "; the last is ",
                 bad.bad_sample, ": ", without_area(bad.reason), "; `dlpipe verify ", shell_word(data_),
                 " --decode` finds all; or raise --max-bad"));
    }
  }
  return {};
}

Status BadRecords::check_file() const {
  if (quarantine_file_.empty()) return {};
  const Status status = stamp_regular_file("loader", quarantine_file_).status();  // a pipe would never end
  if (status.ok() || status.code() == ErrorCode::kNotFound) return {};
  return quarantine_error(status);
}

// A run that resumes an older checkpoint meets the same bad samples again; their lines are there already.
Status BadRecords::read_listed() {
  DLPIPE_RETURN_IF_ERROR(check_file());
  std::ifstream file(quarantine_file_);
  for (std::string line; std::getline(file, line);) {
    int64_t sample = 0;
    if (parse_int(split(line, '\t').front(), &sample)) listed_.insert(sample);
  }
  return {};
}

Status BadRecords::append(int64_t epoch, const Substitution& bad) {
  if (!read_listed_) DLPIPE_RETURN_IF_ERROR(read_listed());
  read_listed_ = true;
  if (!listed_.insert(bad.bad_sample).second) return {};
  const auto file = RegularFile::open_to_write("loader", quarantine_file_, O_WRONLY | O_APPEND);
  if (!file.ok()) return quarantine_error(file.status());
  const std::string text =
      concat(listed_.size() == 1 ? kTitle : "", bad.bad_sample, "\t", epoch, "\t", bad.position, "\t",
             bad.used_sample < 0 ? "none" : concat(bad.used_sample), "\t", one_line(bad.reason), "\n");
  const Status written =
      write_all("loader", file->fd(), std::as_bytes(std::span(text.data(), text.size())), quarantine_file_);
  return written.ok() ? Status() : quarantine_error(written);
}

}  // namespace dlpipe::pipeline

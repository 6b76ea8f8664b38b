// Everything that can go wrong is a clear message, and never a dataset that looks whole but is not.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/text.h"
#include "run/ingest/options.h"
#include "tests/io/data/sources/tar_writing.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

void expect_error(const Status& status, ErrorCode code, const std::string& part) {
  EXPECT_EQ(error_code_name(status.code()), error_code_name(code)) << status.message();
  EXPECT_NE(status.message().find(part), std::string::npos) << "no '" << part << "' in: " << status.message();
}

// The Status that `body` answers in a process of its own, which may lower its limits and rights.
constexpr int kCannot = 200;  // "code" of a body that the machine refuses to set up
Status in_child(const std::function<Status()>& body, bool* refused = nullptr) {
  int ends[2];
  if (pipe(ends) != 0) return Status(ErrorCode::kInternal, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const Status status = body();
    const std::string text = static_cast<char>(status.code()) + status.message();
    [[maybe_unused]] const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, count);
  close(ends[0]);
  int unused = 0;
  waitpid(child, &unused, 0);
  if (text.empty()) return Status(ErrorCode::kInternal, "the child died");
  if (refused != nullptr) *refused = static_cast<unsigned char>(text[0]) == kCannot;
  return Status(static_cast<ErrorCode>(text[0]), text.substr(1));
}

TEST(IngestFailure, OptionsThatMakeNoSenseAreNamed) {
  TempDir dir;
  write_images(dir / "src", 4, 2, 20);
  const IngestOptions good = options_for(dir / "src", dir / "dst");
  const auto message = [&](auto change) {
    IngestOptions options = good;
    change(options);
    const Status status = ingest(options).status();
    EXPECT_EQ(status.code(), ErrorCode::kMisuse) << status.message();
    return status.message();
  };
  EXPECT_NE(message([](auto& o) { o.quality = 0; }).find("--quality 0"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.limit = 0; }).find("--limit 0"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.resize_max = -1; }).find("--resize-max -1"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.jobs = -1; }).find("--threads -1"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.map_bytes = 5; }).find("--map-size"), std::string::npos);
  EXPECT_NE(message([&](auto& o) { o.destination = dir / "src/below"; }).find("is inside"),
            std::string::npos);
  EXPECT_NE(message([&](auto& o) { o.destination = dir / "src"; }).find("src is both SRC and DST"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) {
              o.split = {0.999, 0.001};
            }).find("too few samples for --split"),
            std::string::npos);
  expect_error(parse_split("0.9,0.2").status(), ErrorCode::kMisuse, "sum to 1");
  expect_error(parse_split("0.9").status(), ErrorCode::kMisuse, "two or three");
  expect_error(parse_split("a,b").status(), ErrorCode::kMisuse, "--split a,b");
  expect_error(parse_store("jpg").status(), ErrorCode::kMisuse, "did you mean 'jpeg'");
  expect_error(parse_on_error("skp").status(), ErrorCode::kMisuse, "did you mean 'skip'");
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
}

TEST(IngestFailure, ADestinationInsideOfWhatListsAndPatternsStandForIsRefused) {
  TempDir dir;
  write_images(dir / "pics", 4, 2, 20);
  write_images(dir / "more", 4, 2, 20);
  write_text(dir / "list.txt", "pics\n");
  IngestOptions options = options_for("", dir / "pics/d");
  options.sources.clear();
  options.list = dir / "list.txt";
  expect_error(ingest(options).status(), ErrorCode::kMisuse, "d is inside " + (dir / "pics"));
  options.list.clear();
  for (const char* pattern : {"{pics,more}", "p*cs"}) {
    options.sources = {dir / pattern};
    expect_error(ingest(options).status(), ErrorCode::kMisuse, "d is inside " + (dir / "pics"));
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "pics/d.partial"));
  options.destination = dir / "d";
  EXPECT_EQ(value_or_throw(ingest(options)).classes, (std::vector<std::string>{"c0", "c1"}));
}

TEST(IngestFailure, EmptyAndMissingSourcesLeaveNothing) {
  TempDir dir;
  std::filesystem::create_directories(dir / "empty");
  expect_error(ingest(options_for(dir / "empty", dir / "dst")).status(), ErrorCode::kNotFound, "is empty");
  expect_error(ingest(options_for(dir / "none", dir / "dst")).status(), ErrorCode::kNotFound,
               "no file or folder");
  write_text(dir / "note.doc", "hello");
  expect_error(ingest(options_for(dir / "note.doc", dir / "dst")).status(), ErrorCode::kUnsupported,
               "can't be ingested");
  write_text(dir / "note.txt", "hello");
  expect_error(ingest(options_for(dir / "note.txt", dir / "dst")).status(), ErrorCode::kMisuse,
               "use a smaller --length");
  EXPECT_FALSE(std::filesystem::exists(dir / "dst"));
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
}

TEST(IngestFailure, OneClassIsSaid) {
  TempDir dir;
  write_images(dir / "src", 4, 1, 20);
  const IngestReport report = value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("only one class, 'c0'"), std::string::npos);
}

TEST(IngestFailure, ClassesThatDifferOnlyInCaseAreSaid) {
  TempDir dir;
  for (const char* name : {"Cat", "cat", "dog"}) {
    for (int i = 0; i < 3; ++i) write_text(concat(dir / "src/", name, "/", i, ".jpg"), jpeg_text(i, 20, 20));
  }
  write_text(dir / "list.csv", "path,label\nsrc/dog/0.jpg,Bird\nsrc/dog/1.jpg,bird\nsrc/dog/2.jpg,dog\n");
  const auto said = [&](const char* source, const char* destination) {
    const IngestReport report = value_or_throw(ingest(options_for(dir / source, dir / destination)));
    EXPECT_EQ(report.classes.size(), 3u);
    std::string all;
    for (const std::string& warning : report.warnings) all += warning + "\n";
    return all;
  };
  EXPECT_NE(said("src", "a").find("'Cat', 'cat' differ only in case"), std::string::npos) << said("src", "b");
  EXPECT_NE(said("list.csv", "c").find("'Bird', 'bird' differ only in case"), std::string::npos);
}

TEST(IngestFailure, LabelsThatAreListsOfAnotherFormOrMissingAreSaid) {
  TempDir dir;
  for (int i = 0; i < 12; ++i) write_text(concat(dir / "src/", i, ".jpg"), jpeg_text(i, 20, 20));
  const auto said = [&](const char* destination, const std::vector<std::string>& tags) {
    std::string lines = "path,tags\n";
    for (size_t i = 0; i < tags.size(); ++i) lines += concat("src/", i, ".jpg,\"", tags[i], "\"\n");
    write_text(dir / "list.csv", lines);
    IngestOptions options = options_for(dir / "list.csv", dir / destination);
    options.fields = {"tags:labels"};
    std::string all;
    for (const std::string& warning : value_or_throw(ingest(options)).warnings) all += warning + "\n";
    return all;
  };
  const char* const kLists = "labels of 'tags' look like lists with ";
  EXPECT_NE(said("a", {"cat,sea", "cat", "sea,cat", "sea", "sea, dog", "dog"}).find(concat(kLists, "commas")),
            std::string::npos);
  EXPECT_NE(said("b", {"a b", "a c", "b c", "a b c", "c a", "c b", "b a", "a", "b", "c"})
                .find(concat(kLists, "blanks, such as 'a b'")),
            std::string::npos);
  EXPECT_EQ(said("c", {"red car", "blue car", "red bus", "blue bus|red car"}).find(kLists),
            std::string::npos);
  EXPECT_EQ(said("d", {"Portland, Maine", "Portland, Oregon", "Paris|Portland, Maine"}).find(kLists),
            std::string::npos);
  // Names that recur too rarely, but consist of other names.
  EXPECT_NE(said("f", {"cat,dog", "cat", "dog", "owl"}).find(concat(kLists, "commas, such as 'cat,dog'")),
            std::string::npos);
  EXPECT_NE(said("g", {"haze primary", "haze", "primary", "clear"}).find(concat(kLists, "blanks")),
            std::string::npos);
  EXPECT_EQ(said("h", {"ice cream", "ice", "tea"}).find(kLists), std::string::npos);
  EXPECT_NE(said("e", {"", ""}).find("no sample has a label in the field 'tags'"), std::string::npos);
}

TEST(IngestFailure, ClassesNamedAsMissingValuesAreSaid) {
  TempDir dir;
  for (const char* name : {"1", "2", "3"}) write_text(concat(dir / "", name, ".jpg"), jpeg_text(1, 20, 20));
  write_text(dir / "list.csv", "path,label\n1.jpg,NA\n2.jpg,ZA\n3.jpg,None\n");
  const IngestReport report = value_or_throw(ingest(options_for(dir / "list.csv", dir / "dst")));
  EXPECT_EQ(report.classes, (std::vector<std::string>{"NA", "None", "ZA"}));
  std::string all;
  for (const std::string& warning : report.warnings) all += warning + "\n";
  EXPECT_NE(all.find("the classes 'NA', 'None', which pandas reads as a missing value"), std::string::npos)
      << all;
}

TEST(IngestFailure, FieldsThatShareTheClassesAreSaid) {
  TempDir dir;
  for (const char* name : {"1", "2", "3"}) write_text(concat(dir / "", name, ".jpg"), jpeg_text(1, 20, 20));
  const auto said = [&](const char* text, const char* destination) {
    write_text(dir / "list.csv", text);
    IngestOptions options = options_for(dir / "list.csv", dir / destination);
    options.fields = {"tags:labels"};
    std::string all;
    for (const std::string& warning : value_or_throw(ingest(options)).warnings) all += warning + "\n";
    return all;
  };
  const std::string mixed =
      said("path,label,tags\n1.jpg,cat,indoor\n2.jpg,dog,indoor|wet\n3.jpg,cat,\n", "a");
  EXPECT_NE(
      mixed.find("the classes of 'label' (2) and 'tags' (2) are one list of 4, so a model trained on one"),
      std::string::npos)
      << mixed;
  const std::string same = said("path,label,tags\n1.jpg,cat,cat|dog\n2.jpg,dog,dog\n3.jpg,cat,\n", "b");
  EXPECT_EQ(same.find("are one list"), std::string::npos) << same;
  const std::string alone = said("path,tags\n1.jpg,cat|dog\n2.jpg,dog\n3.jpg,\n", "c");
  EXPECT_EQ(alone.find("are one list"), std::string::npos) << alone;
}

TEST(IngestFailure, FoldersOfImagesAndMasksAreNotTwoClasses) {
  TempDir dir;
  const auto write = [&](const std::string& name, int colours) {
    std::vector<uint8_t> pixels(size_t{32} * 24 * 3);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i / 3 * 7 % colours);
    const ConstImageView image{pixels.data(), 32, 24, 3, 96};
    const auto png = value_or_throw(data::encode_png(image));
    write_text(dir / name, {reinterpret_cast<const char*>(png.data()), png.size()});
  };
  for (const char* name : {"1", "2", "3"}) {
    write(concat("a/rgb/", name, ".png"), 200);
    write(concat("a/seg/", name, "_L.png"), 5);
    write(concat("b/cat/", name, ".png"), 200);
    write(concat("b/dog/", name, ".png"), 180);
    write(concat("c/rgb/x", name, ".png"), 200);
    write(concat("c/seg/y", name, ".png"), 5);
  }
  expect_error(
      ingest(options_for(dir / "a", dir / "1")).status(), ErrorCode::kMisuse,
      "the folders 'rgb', 'seg' have files of the same names and sizes, and those of 'seg' have few");
  IngestOptions literally = options_for(dir / "a", dir / "2");
  literally.no_splits = true;
  EXPECT_EQ(value_or_throw(ingest(literally)).classes.size(), 2u);
  IngestOptions small =
      options_for(dir / "a", dir / "5");  // images above the limit are not decoded for it, either
  small.max_pixels = 100;
  EXPECT_EQ(ingest(small).status().message().find("few colours"), std::string::npos);
  EXPECT_EQ(value_or_throw(ingest(options_for(dir / "b", dir / "3"))).classes.size(), 2u) << "many colours";
  EXPECT_EQ(value_or_throw(ingest(options_for(dir / "c", dir / "4"))).classes.size(), 2u) << "other names";
}

TEST(IngestFailure, ADestinationThatIsABrokenLinkIsRefusedFirst) {
  TempDir dir;
  write_images(dir / "src", 2, 2, 20);
  std::filesystem::create_symlink("elsewhere", dir / "dst");
  expect_error(ingest(options_for(dir / "src", dir / "dst")).status(), ErrorCode::kMisuse,
               "dst is a link to elsewhere, which does not exist; give that path instead");
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
}

TEST(IngestFailure, NamesListedTwiceAreRefused) {
  TempDir dir;
  write_text(dir / "src/1.jpg", jpeg_text(1, 9, 9));
  write_text(dir / "list.csv", "1.jpg,a\n1.jpg,b\n");
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.manifest = dir / "list.csv";
  expect_error(ingest(options).status(), ErrorCode::kCorrupt, "line 2: 1.jpg is already listed on line 1");
}

TEST(IngestFailure, LinkLoopsAreLeftAsideAndNamed) {
  TempDir dir;
  write_images(dir / "src", 4, 2, 20);
  std::filesystem::create_directory_symlink("..", dir / "src/c0/up");
  const IngestReport report = value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  EXPECT_EQ(report.splits.at(0).samples, 4);
  ASSERT_FALSE(report.warnings.empty());
  EXPECT_NE(report.warnings.back().find("'c0/up'"), std::string::npos) << report.warnings.back();
}

TEST(IngestFailure, OnErrorStopNamesTheFileAndCanBeResumedWithSkip) {
  TempDir dir;
  write_images(dir / "src", 40, 2, 20);  // number 5 is corrupt
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.on_error = OnError::kStop;
  expect_error(ingest(options).status(), ErrorCode::kCorrupt, "c1/1005.jpg: corrupt JPEG");
  EXPECT_FALSE(std::filesystem::exists(dir / "dst"));
  options.on_error = OnError::kSkip;
  EXPECT_EQ(value_or_throw(ingest(options)).skipped.size(), 1u);
}

// A plain archive that lost its second half must not look like a smaller one; a packed one never did.
TEST(IngestFailure, AnArchiveThatIsCutShortIsAnErrorUnlessItMayBeSkipped) {
  TempDir dir;
  std::string tar;
  for (uint64_t i = 0; i < 6; ++i)
    tar += data::tar_file(concat("s/c", i % 2, "/", i, ".jpg"), jpeg_text(i, 30, 30));
  write_text(dir / "whole/b.tar", tar + data::tar_end());
  write_text(dir / "cut.tar", tar.substr(0, tar.size() / 2));
  write_text(dir / "two/a.tar.gz", "\x1f\x8b and no more");
  write_text(dir / "two/b.tar", tar + data::tar_end());
  for (const char* name : {"cut.tar", "two"}) {
    SCOPED_TRACE(name);
    IngestOptions options = options_for(dir / name, dir / "dst");
    expect_error(ingest(options).status(), ErrorCode::kCorrupt, "--on-error skip");
    EXPECT_FALSE(std::filesystem::exists(dir / "dst"));
    EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
    options.on_error = OnError::kSkip;
    const IngestReport report = value_or_throw(ingest(options));
    EXPECT_EQ(report.skipped.size(), 1u);
    EXPECT_GT(report.splits[0].samples, 0);
    std::filesystem::remove_all(dir / "dst");
  }
  EXPECT_EQ(value_or_throw(ingest(options_for(dir / "whole", dir / "dst"))).splits[0].samples, 6);
}

TEST(IngestFailure, OnlyBadFilesMakeNoDataset) {
  TempDir dir;
  write_text(dir / "src/a/1.jpg", "no image");
  write_text(dir / "src/b/2.gif", "GIF89a");
  expect_error(ingest(options_for(dir / "src", dir / "dst")).status(), ErrorCode::kCorrupt,
               "no usable image");
  EXPECT_FALSE(std::filesystem::exists(dir / "dst"));
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
}

TEST(IngestFailure, SkippedFilesSayWhy) {
  TempDir dir;
  write_images(dir / "src", 4, 2, 20);
  write_text(dir / "src/c0/animated.gif", "GIF89a");
  write_text(dir / "src/c0/empty.jpg", "");
  write_text(dir / "src/c1/large.jpg", jpeg_text(1, 60, 60));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.max_pixels = 1000;
  const IngestReport report = value_or_throw(ingest(options));
  ASSERT_EQ(report.skipped.size(), 3u);
  EXPECT_NE(report.skipped[0].reason.find("no decoder for GIF images"), std::string::npos);
  EXPECT_NE(report.skipped[1].reason.find("empty"), std::string::npos);
  EXPECT_NE(report.skipped[2].reason.find("--max-pixels"), std::string::npos);
}

TEST(IngestFailure, AFileThatChangesUnderneathIsNoticed) {
  TempDir dir;
  write_images(dir / "src", 60, 2, 20);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.jobs = 1;
  options.window_bytes = 1;
  const std::string victim = dir / "src/c1/1059.jpg";  // the last one
  options.stop_requested = [&, done = false]() mutable {
    if (!done) write_text(victim, file_text(victim) + "more");
    done = true;
    return false;
  };
  expect_error(ingest(options).status(), ErrorCode::kChanged, "c1/1059.jpg changed");
  EXPECT_FALSE(std::filesystem::exists(dir / "dst"));
}

// Root may read and write anything, so these run as nobody where they run as root.
bool become_nobody() {
  constexpr uid_t kNobody = 65534;
  return geteuid() != 0 || (setgid(kNobody) == 0 && setuid(kNobody) == 0);
}

TEST(IngestFailure, UnreadableFilesAreSkippedAndUnreadableFoldersStop) {
  TempDir dir;
  write_images(dir / "src", 8, 2, 20);
  for (const char* open : {"", "/src", "/src/c0", "/src/c1"}) chmod((dir.path() + open).c_str(), 0777);
  chmod((dir / "src/c0/1002.jpg").c_str(), 0);
  Status status = in_child([&] {
    if (!become_nobody()) return Status(static_cast<ErrorCode>(kCannot), "x");
    umask(0);
    IngestOptions options = options_for(dir / "src", dir / "dst");
    const auto report = ingest(options);
    if (!report.ok()) return report.status();
    return Status(ErrorCode::kInternal, report->skipped.at(0).path + ": " + report->skipped.at(0).reason);
  });
  EXPECT_NE(status.message().find("c0/1002.jpg: [ingest] cannot open"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("Permission denied"), std::string::npos) << status.message();
  chmod((dir / "src/c1").c_str(), 0);
  status = in_child([&] {
    become_nobody();
    return ingest(options_for(dir / "src", dir / "other")).status();
  });
  chmod((dir / "src/c1").c_str(), 0755);
  expect_error(status, ErrorCode::kPermission, "c1: Permission denied; check the owner and mode");
}

TEST(IngestFailure, ALinkToWhatMayNotBeLookedAtIsSkipped) {
  TempDir dir;
  write_images(dir / "src", 8, 2, 20);
  write_text(dir / "away/1.jpg", jpeg_text(1, 8, 8));
  std::filesystem::create_symlink("../../away/1.jpg", dir / "src/c0/link.jpg");
  for (const char* open : {"", "/src", "/src/c0", "/src/c1"}) chmod((dir.path() + open).c_str(), 0777);
  chmod((dir / "away").c_str(), 0);
  const Status status = in_child([&] {
    if (!become_nobody()) return Status(static_cast<ErrorCode>(kCannot), "x");
    umask(0);
    const auto report = ingest(options_for(dir / "src", dir / "dst"));
    if (!report.ok()) return report.status();
    return Status(ErrorCode::kInternal, report->skipped.at(0).path + " " + report->skipped.at(0).reason);
  });
  chmod((dir / "away").c_str(), 0755);
  EXPECT_NE(
      status.message().find("c0/link.jpg is a link to ../../away/1.jpg, which can't be read: no permission"),
      std::string::npos)
      << status.message();
}

TEST(IngestFailure, ADestinationThatMayNotBeWrittenIsNamed) {
  TempDir dir;
  write_images(dir / "src", 8, 2, 20);
  std::filesystem::create_directories(dir / "closed");
  for (const char* open : {"", "/src", "/src/c0", "/src/c1", "/closed"})
    chmod((dir.path() + open).c_str(), 0555);
  const Status status = in_child([&] {
    become_nobody();
    return ingest(options_for(dir / "src", dir / "closed/dst")).status();
  });
  for (const char* open : {"", "/src", "/src/c0", "/src/c1", "/closed"})
    chmod((dir.path() + open).c_str(), 0755);
  expect_error(status, ErrorCode::kPermission, "cannot create");
}

TEST(IngestFailure, AFullMapIsNamedAndALargerOneGoesOn) {
  TempDir dir;
  write_images(dir / "src", 160, 2, 160);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.store = Store::kRaw;
  options.commit_entries = 10;
  options.map_bytes = 2 << 20;
  expect_error(ingest(options).status(), ErrorCode::kNoSpace, "map full");
  EXPECT_FALSE(std::filesystem::exists(dir / "dst"));
  options.map_bytes = 1 << 30;
  const IngestReport report = value_or_throw(ingest(options));
  EXPECT_TRUE(report.resumed);
  EXPECT_EQ(report.splits[0].samples, 155);
}

TEST(IngestFailure, AFileSizeLimitIsNamedAndTheRunGoesOnWithoutIt) {
  TempDir dir;
  write_images(dir / "src", 160, 2, 160);
  IngestOptions options = options_for(dir / "src", dir / "whole");
  options.store = Store::kRaw;
  options.commit_entries = 10;
  value_or_throw(ingest(options));
  options.destination = dir / "dst";
  const Status status = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {2 << 20, 2 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    return ingest(options).status();
  });
  expect_error(status, ErrorCode::kNoSpace, "limit on file sizes");
  EXPECT_FALSE(std::filesystem::exists(dir / "dst"));
  EXPECT_TRUE(value_or_throw(ingest(options)).resumed);
  EXPECT_TRUE(dataset_files(dir / "dst") == dataset_files(dir / "whole"));
}

// A file system of 3 MB, private to the calling process; false where the machine doesn't allow one.
bool mount_small_disk(const std::string& at) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", at.c_str(), "tmpfs", 0, "size=3m") == 0;
}

TEST(IngestFailure, TooSmallADiskIsFoundBeforeAnythingIsWritten) {
  TempDir dir;
  write_images(dir / "src", 160, 2, 160);
  std::filesystem::create_directories(dir / "disk");
  bool refused = false;
  const Status status = in_child(
      [&] {
        if (!mount_small_disk(dir / "disk")) return Status(static_cast<ErrorCode>(kCannot), "x");
        IngestOptions options = options_for(dir / "src", dir / "disk/dst");
        options.store = Store::kRaw;
        const Status inner = ingest(options).status();
        const bool clean = std::filesystem::is_empty(dir / "disk");
        return Status(inner.code(), inner.message() + (clean ? "" : " and something was left"));
      },
      &refused);
  if (refused) GTEST_SKIP() << "no mount namespaces here";
  expect_error(status, ErrorCode::kNoSpace, "not enough space: ");
  expect_error(status, ErrorCode::kNoSpace, "choose another directory or --limit");
  EXPECT_EQ(status.message().find("something was left"), std::string::npos);
}

TEST(IngestFailure, ADiskThatFillsUpIsNamedAndTheRunGoesOnAfterwards) {
  TempDir dir;
  write_images(dir / "src", 300, 2, 60);
  std::filesystem::create_directories(dir / "disk");
  value_or_throw(ingest([&] {
    IngestOptions options = options_for(dir / "src", dir / "whole");
    options.commit_entries = 10;
    return options;
  }()));
  bool refused = false;
  const Status status = in_child(
      [&] {
        if (!mount_small_disk(dir / "disk")) return Status(static_cast<ErrorCode>(kCannot), "x");
        IngestOptions options = options_for(dir / "src", dir / "disk/dst");
        options.commit_entries = 10;
        // Somebody else fills the disk once the ingest has begun.
        options.stop_requested = [&, full = false]() mutable {
          const int file = full ? -1 : open((dir / "disk/other").c_str(), O_WRONLY | O_CREAT, 0600);
          const std::string block(4096, 'x');
          while (file >= 0 && write(file, block.data(), block.size()) > 0) continue;
          if (file >= 0) close(file);
          full = true;
          return false;
        };
        const Status inner = ingest(options).status();
        if (std::filesystem::exists(dir / "disk/dst")) return Status(ErrorCode::kInternal, "looks whole");
        unlink((dir / "disk/other").c_str());
        options.stop_requested = {};
        const auto again = ingest(options);
        if (!again.ok()) return again.status();
        const bool same = dataset_files(dir / "disk/dst") == dataset_files(dir / "whole");
        return Status(inner.code(),
                      inner.message() + (same && again->resumed ? "; then the same bytes" : ""));
      },
      &refused);
  if (refused) GTEST_SKIP() << "no mount namespaces here";
  expect_error(status, ErrorCode::kNoSpace, "no space left on the disk");
  expect_error(status, ErrorCode::kNoSpace, "then the same bytes");
}

}  // namespace
}  // namespace dlpipe::ingest

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <map>

#include "dlpipe/random.h"
#include "dlpipe/source.h"
#include "io/data/sources/bytes/scratch_file.h"
#include "io/data/sources/inputs/inputs.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/sources/tar_writing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

SourceOptions options_in(const TempDir& dir) {
  SourceOptions options;
  options.scratch = std::make_shared<ScratchSpace>(dir.path());
  return options;
}

Result<SourceListing> list(const TempDir& dir, const std::vector<std::string>& given,
                           const std::string& label = "") {
  SourceOptions options = options_in(dir);
  options.label = label;
  auto source = open_sources(given, "", options);
  if (!source.ok()) return source.status();
  return (*source)->list();
}
Result<SourceListing> list(const TempDir& dir, const std::string& path) {
  return list(dir, std::vector<std::string>{path});
}

/// path -> "class|split|bytes" of what can be read; "!problem" of the rest.
std::map<std::string, std::string> contents(const TempDir& dir, const std::vector<std::string>& given,
                                            SourceOptions options) {
  options.scratch = std::make_shared<ScratchSpace>(dir.path());
  auto source = value_or_throw(open_sources(given, "", options));
  const SourceListing listing = value_or_throw(source->list());
  std::map<std::string, std::string> all;
  for (const SourceEntry& entry : listing.entries) {
    std::string& text = all[entry.path];
    EXPECT_TRUE(text.empty()) << entry.path << " twice";
    if (!entry.problem.empty()) {
      text = "!" + entry.problem;
      continue;
    }
    const std::vector<std::byte> bytes = value_or_throw(source->read(entry));
    text = listing.classes.at(static_cast<size_t>(entry.label)) + "|" + entry.split + "|" +
           std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (const std::string& extra : entry.extra) text += "|" + extra;
  }
  return all;
}

std::map<std::string, std::string> contents(const TempDir& dir, const std::string& path) {
  return contents(dir, {path}, {});
}

std::string shard(int first, int last) {
  std::string tar;
  for (int i = first; i < last; ++i) {
    const std::string key = "s/" + std::to_string(1000 + i);
    tar += tar_file(key + ".jpg", "image " + std::to_string(i)) +
           tar_file(key + ".cls", std::to_string(i % 3) + "\n");
  }
  return tar + tar_end();
}

std::string gzipped(const std::string& text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(compressBound(text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

std::string zstd_of(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

TEST(TarSource, WebDatasetSamplesHaveTheirKeysClassAndTexts) {
  TempDir dir;
  write_text(dir / "a.tar", tar_file("./x/000.a.JPG", "one") + tar_file("x/000.cls", " 7 \n") +
                                tar_file("x/000.json", "{\"label\": 3}") + tar_file("x/001.png", "two") +
                                tar_file("x/001.json", "{\"label\": 10}") +
                                tar_file("x/001.txt", "a\tcat\n") + tar_file("x/002.seg.png", "mask") +
                                tar_file("x/002.jpeg", "three") + tar_file("x/002.cls", "8") +
                                tar_file("x/._002.jpeg", "mac") + tar_end());
  const SourceListing listing = value_or_throw(list(dir, dir / "a.tar"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"7", "8", "10"}));
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"json", "txt"}));
  EXPECT_EQ(contents(dir, dir / "a.tar"),
            (std::map<std::string, std::string>{{"x/000.a.JPG", "7||one|{\"label\": 3}|"},
                                                {"x/001.png", "10||two|{\"label\": 10}|a\tcat\n"},
                                                {"x/002.jpeg", "8||three||"}}));
  SourceOptions options;
  options.label = "label";
  EXPECT_EQ(contents(dir, {dir / "a.tar"}, options)["x/000.a.JPG"], "3||one|{\"label\": 3}|");
  const std::string warnings = warnings_of(listing);
  EXPECT_NE(warnings.find("1 x .seg.png"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("1 x hidden"), std::string::npos) << warnings;
}

TEST(TarSource, SamplesThatSayTooLittleOrTooMuchAreNamed) {
  TempDir dir;
  write_text(dir / "a.tar", tar_file("0.jpg", "a") + tar_file("0.cls", "1") + tar_file("1.jpg", "b") +
                                tar_file("2.jpg", "c") + tar_file("2.cls", "1\n2") + tar_file("3.jpg", "d") +
                                tar_file("3.png", "d") + tar_file("3.cls", "1") + tar_file("4.cls", "1") +
                                tar_file("5.jpg", "e") + tar_file("5.json", "[") + tar_end());
  auto all = contents(dir, dir / "a.tar");
  EXPECT_EQ(all.size(), 5u);
  EXPECT_EQ(all["0.jpg"], "1||a|");
  EXPECT_NE(all["1.jpg"].find("it has no class"), std::string::npos);
  EXPECT_NE(all["2.jpg"].find("does not hold one class"), std::string::npos);
  EXPECT_NE(all["3.jpg"].find("several images"), std::string::npos);
  EXPECT_NE(all["5.jpg"].find("not a JSON object"), std::string::npos);
  write_text(dir / "b.tar", tar_file("0.jpg", "a") + tar_file("0.json", "{\"kind\": 1}") + tar_end());
  EXPECT_NE(list(dir, dir / "b.tar").status().message().find("no class in the samples"), std::string::npos);
}

// As img2dataset writes them: what is to be learnt are texts.
TEST(TarSource, WebDatasetSamplesWithCaptionsNeedNoClass) {
  TempDir dir;
  const std::string sample = tar_file("0.jpg", "a") + tar_file("0.txt", "a cat") +
                             tar_file("0.json", "{\"url\": \"x\", \"width\": 3}") + tar_end();
  write_text(dir / "a.tar", sample);
  const SourceListing listing = value_or_throw(list(dir, dir / "a.tar"));
  EXPECT_EQ(listing.entries.at(0).problem, "");
  EXPECT_EQ(listing.entries[0].label, -1);
  EXPECT_EQ(listing.entries[0].extra[1], "a cat");
  EXPECT_NE(listing.warnings.at(0).find("has fields for its images, but no classes"), std::string::npos);
  EXPECT_NE(list(dir, {dir / "a.tar"}, "kind").status().message().find("no class in the samples"),
            std::string::npos);
  std::vector<std::string> shards;
  for (const char* name : {"1", "2", "3", "4", "5"}) {
    shards.push_back(dir / (std::string(name) + ".tar"));
    write_text(shards.back(), sample);
  }
  const SourceListing all = value_or_throw(list(dir, shards));
  EXPECT_EQ(all.entries.size(), 5u);
  ASSERT_EQ(all.warnings.size(), 4u) << "not one for each shard";
  EXPECT_NE(all.warnings[3].find("and 2 more inputs: ... has fields for its images, but no classes"),
            std::string::npos)
      << all.warnings[3];
}

TEST(TarSource, ClassFoldersAreThoseOfAFolder) {
  TempDir dir;
  write_text(dir / "flat.tar", tar_header("pets/", 0, '5') + tar_header("pets/emu/", 0, '5') +
                                   tar_file("pets/cat/1.jpg", "a") + tar_file("pets/dog/x/2.jpg", "b") +
                                   tar_file("pets/README.md", "c") + tar_end());
  EXPECT_EQ(contents(dir, dir / "flat.tar"),
            (std::map<std::string, std::string>{{"cat/1.jpg", "cat||a"}, {"dog/x/2.jpg", "dog||b"}}));
  EXPECT_EQ(value_or_throw(list(dir, dir / "flat.tar")).classes, (std::vector<std::string>{"cat", "dog"}))
      << "the folder emu is empty";
  write_text(dir / "splits.tar", tar_file("train/cat/1.jpg", "a") + tar_file("train/dog/2.jpg", "b") +
                                     tar_file("val/cat/3.jpg", "c") + tar_end());
  EXPECT_EQ(contents(dir, dir / "splits.tar"),
            (std::map<std::string, std::string>{{"train/cat/1.jpg", "cat|train|a"},
                                                {"train/dog/2.jpg", "dog|train|b"},
                                                {"val/cat/3.jpg", "cat|val|c"}}));
}

TEST(TarSource, ClassFoldersCalledByNumbersAreNumberedAsThoseOfAFolder) {
  TempDir dir;
  write_text(dir / "a.tar",
             tar_file("10/1.jpg", "a") + tar_file("9/1.jpg", "b") + tar_file("2/1.jpg", "c") + tar_end());
  const SourceListing listing = value_or_throw(list(dir, dir / "a.tar"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"10", "2", "9"}));
  EXPECT_TRUE(listing.classes_are_folders);
  EXPECT_EQ(
      contents(dir, dir / "a.tar"),
      (std::map<std::string, std::string>{{"10/1.jpg", "10||a"}, {"9/1.jpg", "9||b"}, {"2/1.jpg", "2||c"}}));
}

TEST(TarSource, ClassArchivesInAnArchiveAreThePublishedImageNet) {
  TempDir dir;
  const std::string inner = tar_file("n01_1.JPEG", "a") + tar_file("n01_2.JPEG", "b") + tar_end();
  write_text(dir / "t.tar", tar_file("n01.tar", inner) +
                                tar_file("n02.tar", tar_file("n02_1.JPEG", "c") + tar_end()) +
                                tar_file("n03.tar", inner.substr(0, 700)) + tar_end());
  auto all = contents(dir, dir / "t.tar");
  EXPECT_EQ(all["n01/n01_2.JPEG"], "n01||b");
  EXPECT_EQ(all["n02/n02_1.JPEG"], "n02||c");
  EXPECT_NE(all["n03.tar (its end)"].find("truncated"), std::string::npos);
  EXPECT_EQ(all.size(), 5u);
}

TEST(TarSource, FlatImagesTakeTheirClassesFromALabelFile) {
  TempDir dir;
  write_text(dir / "val.tar", tar_file("v_2.JPEG", "b") + tar_file("v_1.JPEG", "a") + tar_end());
  EXPECT_NE(list(dir, dir / "val.tar").status().message().find("--labels FILE"), std::string::npos);
  write_text(dir / "synsets.txt", "n02\nn01\n");
  SourceOptions options;
  options.labels = dir / "synsets.txt";
  EXPECT_EQ(contents(dir, {dir / "val.tar"}, options),
            (std::map<std::string, std::string>{{"v_1.JPEG", "n02||a"}, {"v_2.JPEG", "n01||b"}}));
  write_text(dir / "synsets.txt", "n02\n");
  options.scratch = std::make_shared<ScratchSpace>(dir.path());
  options.path = dir / "val.tar";
  EXPECT_NE(value_or_throw(open_source(options))->list().status().message().find("has 1 line for 2 images"),
            std::string::npos);
}

TEST(TarSource, LongNamesOfEveryKindAreWhole) {
  TempDir dir;
  const std::string deep = "cat/" + std::string(150, 'd') + "/" + std::string(120, 'n') + ".jpg";
  const std::string comment = pax_record("comment", std::string(3 << 20, 'c'));
  const std::string record = pax_record("mtime", "1.5") + comment + pax_record("path", deep);
  write_text(dir / "pax.tar", tar_header("g", comment.size(), 'g') + padded(comment) +
                                  tar_header("PaxHeaders/x", record.size(), 'x') + padded(record) +
                                  tar_file("cat/short", "a") + tar_file("dog/1.jpg", "b") + tar_end());
  write_text(dir / "gnu.tar", tar_header("././@LongLink", deep.size() + 1, 'L') + padded(deep + '\0') +
                                  tar_file("cat/short", "a") + tar_file("dog/1.jpg", "b") + tar_end());
  const std::map<std::string, std::string> expected = {{deep, "cat||a"}, {"dog/1.jpg", "dog||b"}};
  EXPECT_EQ(contents(dir, dir / "pax.tar"), expected);
  EXPECT_EQ(contents(dir, dir / "gnu.tar"), expected);
  write_text(dir / "ustar.tar", tar_header("1.jpg", 1, '0', "", "dog/below") + padded("b") +
                                    tar_file("cat/2.jpg", "c") + tar_end());
  EXPECT_EQ(contents(dir, dir / "ustar.tar"),
            (std::map<std::string, std::string>{{"cat/2.jpg", "cat||c"}, {"dog/below/1.jpg", "dog||b"}}));
}

TEST(TarSource, LinksDevicesAndLaterVersionsAreAsTarTakesThem) {
  TempDir dir;
  write_text(dir / "a.tar", tar_file("cat/1.jpg", "old") + tar_header("dog/1.jpg", 0, '1', "cat/1.jpg") +
                                tar_header("dog/link", 0, '2', "../cat/1.jpg") +
                                tar_header("dog/3.jpg", 0, '3') + tar_header("../dog/4.jpg", 0) +
                                tar_file("cat/1.jpg", "new") + tar_end() + tar_file("cat/9.jpg", "appended") +
                                tar_end());
  EXPECT_EQ(contents(dir, dir / "a.tar"),
            (std::map<std::string, std::string>{{"cat/1.jpg", "cat||new"}, {"dog/1.jpg", "dog||old"}}));
  const std::string warnings = warnings_of(value_or_throw(list(dir, dir / "a.tar")));
  for (const char* part : {"1 x symbolic link", "1 x device", "1 x name that leads outside",
                           "appears in it twice", "after the archive's end mark"})
    EXPECT_NE(warnings.find(part), std::string::npos) << part << " in " << warnings;
}

TEST(TarSource, AnImageThatIsALinkWithoutBytesInTheArchiveIsAnEntryThatCannotBeRead) {
  TempDir dir;
  write_text(dir / "a.tar", tar_file("cat/1.jpg", "a") + tar_file("dog/1.jpg", "b") +
                                tar_header("dog/2.jpg", 0, '2', "../cat/1.jpg") +
                                tar_header("dog/3.jpg", 0, '1', "dog/none.jpg") + tar_end());
  const SourceListing listing = value_or_throw(list(dir, dir / "a.tar"));
  std::map<std::string, std::string> problems;
  for (const SourceEntry& entry : listing.entries)
    if (!entry.problem.empty()) problems[entry.path] = entry.problem;
  EXPECT_EQ(problems,
            (std::map<std::string, std::string>{{"dog/2.jpg",
                                                 "is a link in the archive, without its contents; tar -h and "
                                                 "--hard-dereference store the images themselves"},
                                                {"dog/3.jpg",
                                                 "is a link in the archive, without its contents; tar -h and "
                                                 "--hard-dereference store the images themselves"}}));
  EXPECT_EQ(listing.entries.size(), 4u);
}

TEST(TarSource, AFolderWithoutAReadableImageMakesNoClass) {
  TempDir dir;
  write_text(dir / "a.tar", tar_header("ant/1.jpg", 0, '2', "nowhere.jpg") + tar_file("cat/1.jpg", "a") +
                                tar_file("dog/1.jpg", "b") + tar_end());
  const SourceListing listing = value_or_throw(list(dir, dir / "a.tar"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  for (const SourceEntry& entry : listing.entries)
    EXPECT_EQ(entry.label, entry.path == "cat/1.jpg" ? 0 : entry.path == "dog/1.jpg" ? 1 : -1) << entry.path;
  const std::string broken = tar_file("n01_1.JPEG", "a").substr(0, 512);
  write_text(dir / "t.tar", tar_file("n01.tar", broken) +
                                tar_file("n02.tar", tar_file("n02_1.JPEG", "c") + tar_end()) + tar_end());
  EXPECT_EQ(value_or_throw(list(dir, dir / "t.tar")).classes, std::vector<std::string>{"n02"});
}

TEST(TarSource, PackedArchivesAndShardsInSeveralFilesAreOneSource) {
  TempDir dir;
  write_text(dir / "p/s-000.tar", shard(0, 5));
  write_text(dir / "p/s-001.tar.gz", gzipped(shard(5, 9)) + std::string(512, '\0'));
  const std::string third = shard(9, 12);
  write_text(dir / "p/s-002.tgz", gzipped(third.substr(0, 700)) + gzipped(third.substr(700)));
  write_text(dir / "p/s-003.tar.zst",
             zstd_of(shard(12, 15).substr(0, 900)) + zstd_of(shard(12, 15).substr(900)));
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 15; ++i) {
    const char* const name = i < 5    ? "s-000.tar"
                             : i < 9  ? "s-001.tar.gz"
                             : i < 12 ? "s-002.tgz"
                                      : "s-003.tar.zst";
    expected[std::string(name) + "/s/" + std::to_string(1000 + i) + ".jpg"] =
        std::to_string(i % 3) + "||image " + std::to_string(i);
  }
  EXPECT_EQ(contents(dir, dir / "p"), expected) << "a folder of archives";
  EXPECT_EQ(contents(dir, dir / "p/s-*"), expected) << "wildcards";
  EXPECT_EQ(contents(dir, dir / "p/s-{000.tar,001.tar.gz,002.tgz,003.tar.zst}"), expected) << "braces";
  EXPECT_FALSE(std::filesystem::exists(dir / ".dlpipe-unpacked")) << "the scratch file has no name";
}

TEST(TarSource, DamagedArchivesLoseOnlyWhatIsDamagedAndSaySo) {
  TempDir dir;
  const std::string good = shard(0, 4);
  const auto problem = [&](const std::string& text) {
    write_text(dir / "x.tar", text);
    const auto listing = list(dir, dir / "x.tar");
    if (!listing.ok()) return listing.status().message();
    return listing->entries.back().problem;
  };
  EXPECT_EQ(problem(good), "");
  EXPECT_NE(problem(good.substr(0, good.size() - 1024)).find("has no end mark"), std::string::npos);
  EXPECT_NE(problem(good.substr(0, 4 * 1024 + 515)).find("truncated within s/"), std::string::npos);
  EXPECT_NE(problem(good.substr(0, 2 * 1024 + 100)).find("truncated within a header"), std::string::npos);
  std::string flipped = good;
  flipped[2 * 1024 + 3] ^= 1;
  EXPECT_NE(problem(flipped).find("the checksum of a header differs"), std::string::npos);
  std::string huge = tar_header("a/1.jpg", 0);
  huge.replace(124, 12, std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12));
  unsigned sum = 0;
  huge.replace(148, 8, "        ");
  for (const char c : huge) sum += static_cast<unsigned char>(c);
  char octal[8];
  std::snprintf(octal, sizeof octal, "%06o", sum);
  huge.replace(148, 7, std::string(octal, 6) + '\0');
  EXPECT_NE(problem(good.substr(0, 1024) + huge).find("size is invalid"), std::string::npos);
  for (const char type : {'L', 'K'})
    EXPECT_NE(problem(good.substr(0, 2048) + tar_header("x", 4 << 20, type) + std::string(5 << 20, 'x'))
                  .find("a name is longer than 1 MB"),
              std::string::npos);
  const std::string name = pax_record("path", std::string(2 << 20, 'n'));
  EXPECT_NE(problem(good.substr(0, 2048) + tar_header("x", name.size(), 'x') + padded(name) + good)
                .find("a name is longer than 1 MB"),
            std::string::npos);
  EXPECT_NE(problem(good.substr(0, 2048) + tar_header("x", 17 << 20, 'x') + std::string(18 << 20, 'x'))
                .find("an extended header is longer than 16 MB"),
            std::string::npos);
  EXPECT_NE(problem(good.substr(0, 2048) + tar_header("x", 9, 'x') + padded("99 path=a") + good)
                .find("an extended header"),
            std::string::npos);
  EXPECT_NE(problem("hello").find("truncated"), std::string::npos);
  EXPECT_NE(problem(std::string(2048, 'x')).find("not a tar header"), std::string::npos);
}

TEST(TarSource, TheSampleBeforeADamageMayLackAPartAndIsNotTaken) {
  TempDir dir;
  const std::string good = shard(0, 3);
  write_text(dir / "x.tar", good.substr(0, 4 * 1024 + 100));  // of the third sample
  auto all = contents(dir, dir / "x.tar");
  EXPECT_EQ(all["s/1000.jpg"], "0||image 0");
  EXPECT_NE(all["s/1001.jpg"].find("a part of it may be lost"), std::string::npos) << all["s/1001.jpg"];
  EXPECT_EQ(all.size(), 3u);
}

TEST(TarSource, DamagedPackingLosesTheArchiveAndNoOther) {
  TempDir dir;
  const std::string gz = gzipped(shard(0, 50));
  const std::string zst = zstd_of(shard(0, 50));
  std::string flipped = gz;
  flipped[flipped.size() - 6] ^= 1;  // its checksum
  for (const std::string& bad : {gz.substr(0, gz.size() / 2), gz.substr(0, gz.size() - 3), flipped,
                                 gz + "rest", zst.substr(0, zst.size() / 2), zst + "rest"}) {
    write_text(dir / "x.tar.gz", bad);
    EXPECT_EQ(list(dir, dir / "x.tar.gz").status().code(), ErrorCode::kCorrupt);
    write_text(dir / "two/a.tar.gz", bad);
    write_text(dir / "two/b.tar", shard(0, 2));
    auto all = contents(dir, dir / "two");
    EXPECT_EQ(all.size(), 3u);
    EXPECT_EQ(all["a.tar.gz"][0], '!');
  }
  write_text(dir / "x.tar.xz", "\xfd\x37zXZ and more");
  write_text(dir / "y.tar", "\xfd\x37zXZ and more");
  EXPECT_NE(list(dir, dir / "y.tar").status().message().find("xz -dc"), std::string::npos);
}

TEST(TarSource, AnyDamageIsAnErrorOrAListingThatCanBeRead) {
  TempDir dir;
  const std::string good = shard(0, 6);
  RandomStream random(11, 3);
  for (int round = 0; round < 300; ++round) {
    std::string text = good;
    for (int i = 0; i < 3; ++i)
      text[random.below(static_cast<uint32_t>(text.size()))] = static_cast<char>(random.below(256));
    if (round % 3 == 0) text.resize(random.below(static_cast<uint32_t>(text.size())));
    write_text(dir / "x.tar", text);
    SourceOptions options = options_in(dir);
    options.path = dir / "x.tar";
    auto source = value_or_throw(open_source(options));
    const auto listing = source->list();
    if (!listing.ok()) continue;
    for (const SourceEntry& entry : listing->entries) {
      EXPECT_TRUE(!entry.problem.empty() || source->read(entry).ok()) << entry.path;
    }
  }
}

TEST(TarSource, AnArchiveThatChangesUnderAnIngestIsNoticed) {
  TempDir dir;
  write_text(dir / "x.tar", shard(0, 3));
  SourceOptions options = options_in(dir);
  options.path = dir / "x.tar";
  auto source = value_or_throw(open_source(options));
  const SourceListing listing = value_or_throw(source->list());
  write_text(dir / "x.tar", shard(0, 4));
  EXPECT_EQ(source->read(listing.entries[0]).status().code(), ErrorCode::kChanged);
  std::filesystem::remove(dir / "x.tar");
  EXPECT_EQ(source->read(listing.entries[0]).status().code(), ErrorCode::kChanged);
}

}  // namespace
}  // namespace dlpipe::data

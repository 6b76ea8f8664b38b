#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "dlpipe/source.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/sources/folder_listing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

TEST(FolderSource, FoldersAreClassesInByteOrder) {
  TempDir dir;
  for (const char* file : {"b/2.jpg", "b/1.JPG", "a/x/deep.png", "a/0.jpeg", "B/3.jpg"})
    write_text(dir / file, "x");
  const SourceListing listing = value_or_throw(list_folder(dir.path() + "/"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"B", "a", "b"}));
  EXPECT_TRUE(listing.warnings.empty());
  std::vector<std::string> found;
  for (const SourceEntry& entry : listing.entries) {
    found.push_back(entry.path + "=" + std::to_string(entry.label));
    EXPECT_EQ(entry.size_bytes, 1u);
    EXPECT_GT(entry.modified_ns, 0);
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<std::string>{"B/3.jpg=0", "a/0.jpeg=1", "a/x/deep.png=1", "b/1.JPG=2",
                                             "b/2.jpg=2"}));
}

// As torchvision's ImageFolder, whose labels people have.
TEST(FolderSource, FoldersCalledByNumbersAreSortedAsTexts) {
  TempDir dir;
  for (const char* file : {"10/a.jpg", "9/a.jpg", "2/a.jpg"}) {
    write_text(dir / ("src/" + std::string(file)), "x");
    write_text(dir / ("splits/train/" + std::string(file)), "x");
    write_text(dir / ("splits/val/" + std::string(file)), "x");
  }
  for (const std::string& source : {dir / "src", dir / "splits"}) {
    const SourceListing listing = value_or_throw(list_folder(source));
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"10", "2", "9"}));
    EXPECT_TRUE(listing.classes_are_folders);
    for (const SourceEntry& entry : listing.entries)
      EXPECT_NE(entry.path.find(listing.classes[static_cast<size_t>(entry.label)] + "/a.jpg"),
                std::string::npos)
          << entry.path;
  }
}

TEST(FolderSource, ReadsWhatItListedAndNoticesChanges) {
  TempDir dir;
  write_text(dir / "a/1.jpg", "hello");
  write_text(dir / "b/1.jpg", "there");
  auto source = value_or_throw(open_source({dir.path(), ""}));
  const SourceListing listing = value_or_throw(source->list());
  const SourceEntry& entry = listing.entries.front();
  EXPECT_EQ(value_or_throw(source->read(entry)).size(), 5u);
  write_text(dir / "a/1.jpg", "hello!");
  EXPECT_EQ(source->read(entry).status().code(), ErrorCode::kChanged);
  write_text(dir / "a/1.jpg", "HELLO");  // the old size, another time
  EXPECT_EQ(source->read(entry).status().code(), ErrorCode::kChanged);
  std::filesystem::remove(dir / "a/1.jpg");
  EXPECT_EQ(source->read(entry).status().code(), ErrorCode::kChanged);
  EXPECT_NE(source->read(entry).status().message().find("was removed"), std::string::npos);
}

TEST(FolderSource, LeavesAsideWhatIsNoImageAndSaysSo) {
  TempDir dir;
  for (const char* file :
       {"a/1.jpg", "b/1.jpg", "a/Thumbs.db", "a/.hidden.jpg", "b/notes", "beside.png", ".git/x.jpg"})
    write_text(dir / file, "x");
  std::filesystem::create_directories(dir / "c");
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b"}));
  const std::string all = warnings_of(listing);
  EXPECT_NE(all.find("1 folder has no image and does not become a class: 'c'"), std::string::npos) << all;
  EXPECT_NE(all.find("1 image next to the class folders"), std::string::npos) << all;
  EXPECT_NE(all.find("1 x .db"), std::string::npos) << all;
  EXPECT_NE(all.find("2 x hidden"), std::string::npos) << all;
}

TEST(FolderSource, AnEmptyFolderBetweenOthersMakesNoClassAndMovesTheNumbers) {
  TempDir dir;
  for (const char* file : {"train/a/1.jpg", "train/c/2.jpg", "val/a/3.jpg", "val/b/4.jpg"})
    write_text(dir / file, "x");
  for (const char* folder : {"train/b", "train/aa", "val/c"})
    std::filesystem::create_directories(dir / folder);
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b", "c"})) << "val alone has images of b";
  for (const SourceEntry& entry : listing.entries)
    EXPECT_NE(entry.path.find("/" + listing.classes[static_cast<size_t>(entry.label)] + "/"),
              std::string::npos)
        << entry.path;
}

TEST(FolderSource, EmptyAndClasslessFoldersAreErrors) {
  TempDir dir;
  EXPECT_NE(list_folder(dir.path()).status().message().find("is empty"), std::string::npos);
  write_text(dir / "1.jpg", "x");
  EXPECT_NE(list_folder(dir.path()).status().message().find("no folders"), std::string::npos);
  EXPECT_NE(list_folder(dir.path()).status().message().find("if it is one class, give the folder above it"),
            std::string::npos);
  std::filesystem::create_directories(dir / "a");
  EXPECT_NE(list_folder(dir.path()).status().message().find("no image in the 1 folder of"),
            std::string::npos);
  write_text(dir / "a/image", "x");
  EXPECT_NE(list_folder(dir.path()).status().message().find("a manifest may name images without an ending"),
            std::string::npos);
  EXPECT_EQ(list_folder(dir / "none").status().code(), ErrorCode::kNotFound);
}

TEST(FolderSource, SoundIsAnsweredWithWhatIsTaken) {
  TempDir dir;
  const std::string end = "1 x .wav; dlpipe reads images and text, not audio";
  write_text(dir / "low/0.wav", "x");
  EXPECT_TRUE(list_folder(dir.path()).status().message().ends_with(end))
      << list_folder(dir.path()).status().message();
  EXPECT_TRUE(list_folder(dir / "low").status().message().ends_with(end))
      << list_folder(dir / "low").status().message();
}

TEST(FolderSource, AnArchiveOrAnImageInPlaceOfAFolderIsAnsweredWithWhatToDo) {
  TempDir dir;
  write_text(dir / "a.zip", "PK");
  write_text(dir / "a.jpg", "x");
  EXPECT_NE(list_folder(dir / "a.zip").status().message().find("unpack it"), std::string::npos);
  EXPECT_NE(list_folder(dir / "a.jpg").status().message().find("is one image"), std::string::npos);
}

TEST(FolderSource, AnArchiveOfAnotherPackerIsAnsweredWithThePipeThatReadsIt) {
  TempDir dir;
  for (const auto& [name, answer] : {std::pair("a b.tar.xz", "`xz -dc '" + (dir / "a b.tar.xz") + "' | "),
                                     std::pair("a.txz", "`xz -dc " + (dir / "a.txz") + " | "),
                                     std::pair("a.tar.bz2", "`bzip2 -dc " + (dir / "a.tar.bz2") + " | "),
                                     std::pair("a.tbz2", "`bzip2 -dc " + (dir / "a.tbz2") + " | ")}) {
    write_text(dir / name, "x");
    const std::string said = list_folder(dir / name).status().message();
    EXPECT_NE(said.find(answer + "dlpipe ingest - DST`"), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  write_text(dir / "a.csv.xz", "x");
  const std::string list = list_folder(dir / "a.csv.xz").status().message();
  EXPECT_NE(list.find("unpack it"), std::string::npos) << list;
}

// Kaggle's Dogs vs. Cats: the commands make the list and read it.
TEST(FolderSource, ImagesWithTheirClassesInTheirNamesAreAnsweredWithTheListOfThem) {
  TempDir dir;
  const auto answer_of = [](const std::string& path) { return list_folder(path).status().message(); };
  write_each(dir,
             {"dvc/train/cat.0.jpg", "dvc/train/cat.10.jpg", "dvc/train/dog.0.jpg", "dvc/train/dog.1.jpg"});
  const std::string said = answer_of(dir / "dvc/train");
  EXPECT_NE(said.find("holds images but no folders that name the classes; if the names of its files contain "
                      "them ('cat', 'dog'): `(cd " +
                      (dir / "dvc/train") + " && "),
            std::string::npos)
      << said;
  const std::string begin = "them ('cat', 'dog'): `",
                    end = " && dlpipe ingest " + (dir / "dvc/train") + " DST";
  const size_t at = said.find(begin) + begin.size();
  const std::string make = "cd " + dir.path() + "; " + said.substr(at, said.find(end) - at);
  ASSERT_EQ(std::system(make.c_str()), 0) << make;
  SourceOptions options{.path = dir / "dvc/train", .manifest = dir / "list.csv"};
  const SourceListing listing = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(listing.entries.size(), 4u);

  write_each(dir, {"pets/american_bulldog_1.jpg", "pets/american_bulldog_2.jpg", "pets/Bombay_1.jpg",
                   "pets/Bombay_22.JPEG"});
  EXPECT_NE(answer_of(dir / "pets").find("('Bombay', 'american_bulldog')"), std::string::npos);
  // One class, a class each, other names: nobody knows.
  write_each(dir, {"camera/IMG_1.jpg", "camera/IMG_2.jpg", "each/a_1.jpg", "each/b_1.jpg", "mixed/a_1.jpg",
                   "mixed/a_2.jpg", "mixed/b_1.jpg", "mixed/b.jpg"});
  for (const char* folder : {"camera", "each", "mixed"})
    EXPECT_NE(answer_of(dir / folder).find("no folders; if it is one class, give the folder above it"),
              std::string::npos)
        << folder;
}

TEST(FolderSource, LinksAreFollowedAndLoopsAreLeftAsideAndNamed) {
  TempDir dir;
  TempDir elsewhere;
  write_text(elsewhere / "1.jpg", "x");
  write_text(dir / "a/1.jpg", "x");
  std::filesystem::create_directory_symlink(elsewhere.path(), dir / "b");
  EXPECT_EQ(value_or_throw(list_folder(dir.path())).entries.size(), 2u);
  // Back to the root from a class and beside the classes, to the class itself, through another folder, and two links in a circle.
  std::filesystem::create_directory_symlink(dir.path(), dir / "a/back");
  std::filesystem::create_directory_symlink(dir.path(), dir / "root");
  std::filesystem::create_directory_symlink(".", dir / "a/same");
  std::filesystem::create_directory_symlink(dir / "a", elsewhere / "to_a");
  std::filesystem::create_symlink("self", dir / "a/self");
  std::filesystem::create_symlink("y", dir / "x");
  std::filesystem::create_symlink("x", dir / "y");
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b"}));
  std::vector<std::string> paths;
  for (const SourceEntry& entry : listing.entries) paths.push_back(entry.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"a/1.jpg", "b/1.jpg", "b/to_a/1.jpg"}));
  const std::string& said = listing.warnings.back();
  EXPECT_NE(said.find("links that lead back to themselves or to a folder above them: "), std::string::npos)
      << said;
  for (const char* link : {"'a/back'", "'a/same'", "'a/self'", "'b/to_a/back'", "'root'", "'x'", "'y'"})
    EXPECT_NE(said.find(link), std::string::npos) << link << " in " << said;
}

TEST(FolderSource, AnImageThatIsALinkToNothingIsAnEntryThatCannotBeRead) {
  TempDir dir;
  write_text(dir / "a/1.jpg", "x");
  write_text(dir / "b/1.jpg", "x");
  std::filesystem::create_symlink(dir / "gone.jpg", dir / "a/dangling.jpg");
  std::filesystem::create_symlink("nowhere/2.png", dir / "b/2.png");
  std::filesystem::create_symlink("self.jpg", dir / "b/self.jpg");
  std::filesystem::create_symlink("1.jpg/inside.jpg", dir / "b/through.jpg");
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  std::map<std::string, std::string> problems;
  for (const SourceEntry& entry : listing.entries)
    if (!entry.problem.empty()) problems[entry.path + "=" + std::to_string(entry.label)] = entry.problem;
  EXPECT_EQ(problems,
            (std::map<std::string, std::string>{
                {"a/dangling.jpg=0", "is a link to " + dir.path() + "/gone.jpg, which does not exist"},
                {"b/2.png=1", "is a link to nowhere/2.png, which does not exist"},
                {"b/self.jpg=1", "is a link to self.jpg, which leads back to itself"},
                {"b/through.jpg=1", "is a link to 1.jpg/inside.jpg, which does not exist"}}));
  EXPECT_EQ(listing.entries.size(), 6u);
  EXPECT_EQ(warnings_of(listing), "") << "each is named where it is skipped";
}

TEST(FolderSource, ALinkToNothingThatIsCalledAsNoImageIsNamed) {
  TempDir dir;
  for (const char* file : {"a/1.jpg", "b/1.jpg"}) write_text(dir / file, "x");
  for (const char* link : {"cat", "a/notes.txt"}) std::filesystem::create_symlink("gone", dir / link);
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(warnings_of(listing).find(
                "ignored broken links, which may have been folders of images: 'a/notes.txt', 'cat'"),
            std::string::npos)
      << warnings_of(listing);
}

TEST(FolderSource, FoldersThatSystemsMakeAreNoClasses) {
  TempDir dir;
  for (const char* folder :
       {"__MACOSX/a", ".ipynb_checkpoints", "@eaDir", "lost+found", "$RECYCLE.BIN", "a/@eaDir"})
    write_text(dir / (std::string(folder) + "/1.jpg"), "x");
  for (const char* file : {"a/1.jpg", "b/1.jpg", "a/.DS_Store", "a/._1.jpg", "b/Thumbs.db", "desktop.ini"})
    write_text(dir / file, "x");
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(listing.entries.size(), 2u);
  const std::string all = warnings_of(listing);
  for (const char* kind : {"1 x __MACOSX", "2 x @eaDir", "1 x lost+found", "3 x hidden", "1 x $RECYCLE.BIN"})
    EXPECT_NE(all.find(kind), std::string::npos) << kind << " in " << all;
}

TEST(FolderSource, PipesAreNeverOpenedAndAreCounted) {
  TempDir dir;
  write_text(dir / "a/1.jpg", "x");
  write_text(dir / "b/1.jpg", "x");
  ASSERT_EQ(mkfifo((dir / "a/pipe.jpg").c_str(), 0600), 0);
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.entries.size(), 2u);
  EXPECT_NE(warnings_of(listing).find("1 x pipe, socket or device"), std::string::npos)
      << warnings_of(listing);
}

TEST(FolderSource, AFileListedTwiceByALinkIsSaid) {
  TempDir dir;
  write_text(dir / "a/1.jpg", "x");
  write_text(dir / "b/2.jpg", "x");
  std::filesystem::create_symlink("../a/1.jpg", dir / "b/link.jpg");
  std::filesystem::create_hard_link(dir / "b/2.jpg", dir / "a/hard.jpg");
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.entries.size(), 4u);
  const std::string all = warnings_of(listing);
  EXPECT_NE(all.find("2 images are links to the same file as another one"), std::string::npos) << all;
  EXPECT_NE(all.find("'b/link.jpg' is 'a/1.jpg'"), std::string::npos) << all;
}

TEST(FolderSource, NamesMayHoldAnyByte) {
  TempDir dir;
  write_text(dir / "a/\xff\xfe \n\t%.jpg", "x");
  write_text(dir / "b\xc3\xa9/1.jpg", "x");
  EXPECT_EQ(value_or_throw(list_folder(dir.path())).entries.size(), 2u);
}

TEST(FolderSource, ALabelFileGivesClassesToImagesWithoutFolders) {
  TempDir dir;
  write_text(dir / "val/b.jpg", "b");
  write_text(dir / "val/a.jpg", "a");
  write_text(dir / "labels.txt", "dog\ncat\n");
  SourceOptions options{.path = dir / "val", .labels = dir / "labels.txt"};
  SourceListing listing = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].path, "a.jpg");
  EXPECT_EQ(listing.entries[0].label, 1);
  write_text(dir / "labels.txt",
             "\xef\xbb\xbf"
             "dog\r\ncat\r\n");
  EXPECT_EQ(value_or_throw(value_or_throw(open_source(options))->list()).classes, listing.classes)
      << "with a byte order mark";
  write_text(dir / "train/cat/1.jpg", "a");
  write_text(dir / "train/dog/2.jpg", "a");
  write_text(dir / "train/emu/3.jpg", "a");
  options.path = dir.path();
  listing = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog", "emu"}));
  std::map<std::string, std::string> found;
  for (const SourceEntry& entry : listing.entries)
    found[entry.path] = entry.split + " " + listing.classes[static_cast<size_t>(entry.label)];
  EXPECT_EQ(found["val/a.jpg"], "val dog");
  EXPECT_EQ(found["val/b.jpg"], "val cat");
  EXPECT_EQ(found["train/emu/3.jpg"], "train emu");
  const auto error = [&](const std::string& labels) {
    write_text(dir / "labels.txt", labels);
    return value_or_throw(open_source(options))->list().status().message();
  };
  EXPECT_NE(error("dog\n").find("has 1 line for 2 images"), std::string::npos);
  EXPECT_NE(error("dog\n\ncat\n").find("3 lines for 2"), std::string::npos);
  EXPECT_NE(error("\ncat\n").find("line 1 is empty"), std::string::npos);
  EXPECT_NE(error("dog\ncta\n").find("did you mean 'cat'"), std::string::npos);
  // Lists of another kind, as ImageNet's are.
  for (const char* list : {"a.jpg dog\nb.jpg cat\n", "a.jpg,dog\nb.jpg,cat\n"}) {
    EXPECT_NE(error(list).find("its lines have an image's name before the class ('a.jpg"), std::string::npos)
        << error(list);
    EXPECT_NE(error(list).find("write only the class on each line"), std::string::npos) << error(list);
  }
  EXPECT_NE(error("ImageId,PredictionString\na,dog 1 2\nb,cat 3 4\n")
                .find("3 lines for 2 images: its first line ('ImageId,PredictionString') looks like column "
                      "names; write only the class"),
            std::string::npos);
  EXPECT_NE(error("1\n2\n").find("its lines are numbers: replace each with the name of its class folder"),
            std::string::npos);
}

}  // namespace
}  // namespace dlpipe::data

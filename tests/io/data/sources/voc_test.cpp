#include <gtest/gtest.h>

#include <algorithm>

#include "dlpipe/source.h"
#include "io/data/sources/typed_columns.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

std::string object(const std::string& name, const std::string& box, const std::string& more = "") {
  return "<object><name>" + name + "</name>" + more + "<bndbox>" + box + "</bndbox></object>";
}
std::string box(const std::string& xmin, const std::string& ymin, const std::string& xmax,
                const std::string& ymax) {
  return "<xmax>" + xmax + "</xmax><xmin>" + xmin + "</xmin><ymin>" + ymin + "</ymin><ymax>" + ymax +
         "</ymax>";
}
std::string xml(const std::string& file, const std::string& objects) {
  return "<?xml version=\"1.0\"?><annotation><folder>VOC2012</folder><filename>" + file +
         "</filename><size><width>500</width><height>375</height><depth>3</depth></size>" + objects +
         "</annotation>";
}

class VocSource : public testing::Test {
 protected:
  void write_set(const std::string& root) {
    for (const char* name : {"2007_1", "2007_2", "2007_3"}) {
      write_text(dir / (root + "/JPEGImages/" + name + ".jpg"), "x");
      write_text(dir / (root + "/Annotations/" + name + ".xml"),
                 xml(std::string(name) + ".jpg",
                     object("dog", box("1", "2", "10", "20"), "<difficult>1</difficult>") +
                         object("cat", box("45.5", "3", "500", "375"),
                                "<difficult>0</difficult>" + object("head", box("1", "1", "2", "2")))));
    }
  }
  Result<SourceListing> list(const SourceOptions& options) {
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  std::string problem(const std::string& text) {
    write_set("v");
    write_text(dir / "v/Annotations/2007_2.xml", text);
    const SourceListing listing = value_or_throw(list({dir / "v", ""}));
    return listing.entries[1].problem;
  }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

TEST_F(VocSource, PixelsFromOneBecomeBoxesFromZero) {
  write_set("VOC2012");
  const SourceListing listing = value_or_throw(list({dir / "VOC2012", ""}));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"})) << "parts of objects are none";
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"boxes", "box_labels", "difficult"}));
  ASSERT_EQ(listing.entries.size(), 3u);
  const SourceEntry& first = listing.entries[0];
  EXPECT_EQ(first.path, "2007_1.jpg");
  EXPECT_EQ(first.annotated.width, 500);
  EXPECT_EQ(floats(first.extra[0]), (std::vector<float>{0, 1, 10, 20, 44.5f, 2, 500, 375}));
  EXPECT_EQ(decode_labels(first.extra[1]), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(floats(first.extra[2]), (std::vector<float>{1, 0}));
  EXPECT_EQ(value_or_throw(source_->read(first)).size(), 1u);
}

// No pixel is 0 where they are counted from 1.
TEST_F(VocSource, ABoxThatBeginsAt0ShowsThatAllPixelsAreCountedFrom0) {
  write_set("v");
  write_text(dir / "v/Annotations/2007_2.xml", xml("2007_2.jpg", object("dog", box("7", "0", "10", "20")) +
                                                                     object("dog", box("3", "2", "9", "8"))));
  const SourceListing listing = value_or_throw(list({dir / "v", ""}));
  EXPECT_EQ(floats(listing.entries[0].extra[0]), (std::vector<float>{1, 2, 10, 20, 45.5f, 3, 500, 375}));
  EXPECT_EQ(floats(listing.entries[1].extra[0]), (std::vector<float>{7, 0, 10, 20, 3, 2, 9, 8}));
  EXPECT_NE(warnings_of(listing).find(dir / "v/Annotations/2007_2.xml has a box that begins at 0, so all "
                                            "pixels are counted from 0"),
            std::string::npos)
      << warnings_of(listing);
  write_set("v");
  EXPECT_EQ(warnings_of(value_or_throw(list({dir / "v", ""}))).find("counted from"), std::string::npos);
}

TEST_F(VocSource, AnObjectWithSeveralBoxesIsSeveral) {
  write_set("v");
  const auto bndbox = [](const std::string& corners) { return "<bndbox>" + corners + "</bndbox>"; };
  write_text(dir / "v/Annotations/2007_2.xml",
             xml("2007_2.jpg", "<object><name>car</name><difficult>1</difficult>" +
                                   bndbox(box("11", "6", "30", "15")) + bndbox(box("1", "1", "5", "5")) +
                                   bndbox(box("40", "20", "50", "30")) + "</object>"));
  const SourceListing listing = value_or_throw(list({dir / "v", ""}));
  const SourceEntry& entry = listing.entries[1];
  EXPECT_EQ(entry.problem, "");
  EXPECT_EQ(floats(entry.extra[0]), (std::vector<float>{10, 5, 30, 15, 0, 0, 5, 5, 39, 19, 50, 30}));
  EXPECT_EQ(decode_labels(entry.extra[1]).size(), 3u);
  EXPECT_EQ(floats(entry.extra[2]), (std::vector<float>{1, 1, 1}));
}

TEST_F(VocSource, ANameThatAListHasAgainIsOneMoreSampleAndOneOfTwoListsIsNot) {
  write_set("v");
  write_text(dir / "v/ImageSets/Main/train.txt", "2007_1\n2007_2\n2007_1\n");
  write_text(dir / "v/ImageSets/Main/val.txt", "2007_3\n");
  const SourceListing listing = value_or_throw(list({dir / "v", ""}));
  ASSERT_EQ(listing.entries.size(), 4u);
  EXPECT_EQ(listing.entries[2].path, "again-2/2007_1.jpg");
  EXPECT_EQ(listing.entries[2].name(), "2007_1.jpg");
  EXPECT_EQ(listing.entries[2].split, "train");
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[2])).size(), 1u);
  write_text(dir / "v/ImageSets/Main/val.txt", "2007_1\n");
  const std::string text = list({dir / "v", ""}).status().message();
  EXPECT_NE(text.find("2007_1.jpg is described twice, by " + (dir / "v/Annotations/2007_1.xml")),
            std::string::npos)
      << text;
}

TEST_F(VocSource, WhatIsSaidTwiceInTwoWaysIsAProblem) {
  const std::string good = object("dog", box("1", "2", "10", "20"));
  EXPECT_EQ(problem(xml("2007_2.jpg", good)), "");
  for (const std::string& twice :
       {xml("2007_2.jpg", object("dog", box("1", "2", "10", "20"), "<name>cat</name>")),
        xml("2007_2.jpg", object("dog", box("1", "2", "10", "20") + "<xmin>3</xmin>")),
        xml("2007_2.jpg", "<filename>other.jpg</filename>"),
        xml("2007_2.jpg", "<size><width>5</width><height>3</height></size>"),
        xml("2007_2.jpg", good) + "<annotation>" + good + "</annotation>"})
    EXPECT_NE(problem(twice).find("several"), std::string::npos) << twice;
  EXPECT_EQ(problem(xml("2007_2.jpg", object("dog", box("1", "2", "10", "20"), "<name>dog</name>"))), "")
      << "the same again";
}

// Programs declare gb2312 and write letters that only GBK has.
TEST_F(VocSource, ClassesAreTextWhateverTheEncodingIs) {
  struct Case {
    const char* encoding;
    const char* bytes;
    const char* name;
  };
  const std::vector<Case> cases = {{"gb2312", "\xc3\xa8", "猫"},
                                   {"GBK", "\xc3\xa8\xe9\x46", "猫镕"},
                                   {"gb2312", "\xe9\x46", "镕"},
                                   {"GB18030", "\xc3\xa8", "猫"},
                                   {"Big5", "\xbf\xdf", "貓"},
                                   {"Shift_JIS", "\x94\x4c", "猫"},
                                   {"EUC-JP", "\xc7\xad", "猫"},
                                   {"EUC-KR", "\xb0\xed\xbe\xe7\xc0\xcc", "고양이"},
                                   {"windows-1251", "\xea\xee\xf2", "кот"},
                                   {"windows-1252", "caf\xe9\x96x", "café–x"},
                                   {"ISO-8859-1", "caf\xe9", "café"},
                                   {"ISO-8859-1", "caf\xe9\x96x", "café–x"},  // as browsers read it
                                   {"iso-8859-2", "\xb1", "ą"},
                                   {"latin1", "caf\xe9", "café"},
                                   {"KOI8-R", "\xcb\xcf\xd4", "кот"},
                                   {"utf-8", "café", "café"},
                                   {"UTF-16", "café", "café"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.encoding);
    for (const std::string quote : {"\"", "'"}) {
      write_set("v");
      write_text(dir / "v/Annotations/2007_2.xml",
                 "<?xml version=\"1.0\" encoding=" + quote + one.encoding + quote + " standalone=\"yes\"?>" +
                     "<annotation>" + object(one.bytes, box("1", "2", "10", "20")) + "</annotation>");
      const SourceListing listing = value_or_throw(list({dir / "v", ""}));
      EXPECT_EQ(listing.entries[1].problem, "");
      EXPECT_EQ(std::count(listing.classes.begin(), listing.classes.end(), one.name), 1) << one.name;
    }
  }
}

TEST_F(VocSource, UnknownEncodingsAndWrongBytesAreNamed) {
  const auto text = [](const std::string& encoding, const std::string& name) {
    return "<?xml version=\"1.0\"" + (encoding.empty() ? "" : " encoding=\"" + encoding + "\"") +
           "?><annotation>" + object(name, box("1", "2", "10", "20")) + "</annotation>";
  };
  EXPECT_NE(problem(text("x-klingon", "cat")).find("'x-klingon'"), std::string::npos);
  EXPECT_NE(problem(text("ISO-2022-JP-3", "cat")).find("'ISO-2022-JP-3'"), std::string::npos);
  EXPECT_NE(problem(text("UTF-8//IGNORE", "ca\xe8t")).find("is not UTF-8"), std::string::npos);
  EXPECT_NE(problem(text("UTF-7", "caf+AOk-")).find("'UTF-7'"), std::string::npos);
  EXPECT_NE(problem("<!-- made by\na tool -->\n" + text("x-klingon", "cat")).find("'x-klingon'"),
            std::string::npos);
  EXPECT_NE(problem(text("gbk", "cat\xff\xff")).find("is not valid in its encoding 'gbk'"),
            std::string::npos);
  EXPECT_NE(problem(text("", "\xc3\xa8\xc3")).find("is not UTF-8"), std::string::npos);
  EXPECT_NE(problem(text("utf-8", "\xc3\xa8\xc3")).find("is not UTF-8"), std::string::npos);
  // A path in the encoding of the machine that wrote it says nothing about the objects.
  EXPECT_EQ(problem("<annotation><path>D:\\\xc3\xa8\xc3\\1.jpg</path>" +
                    object("cat", box("1", "2", "10", "20")) + "</annotation>"),
            "");
}

TEST_F(VocSource, ReferencesAreCharactersOrProblems) {
  const auto text = [](const std::string& name, const std::string& doctype = "") {
    return "<?xml version=\"1.0\"?>" + doctype + "<annotation>" + object(name, box("1", "2", "10", "20")) +
           "</annotation>";
  };
  const std::pair<std::string, std::string> names[] = {{"caf&#233;&#xE9;&#x732b;&#128008;", "caféé猫🐈"},
                                                       {"a&lt;b&gt;&amp;&quot;&apos;", "a<b>&\"'"},
                                                       {"&amp;#0;", "&#0;"},
                                                       {"Tom & Jerry;", "Tom & Jerry;"},
                                                       {"<![CDATA[a&#0;b]]>", "a&#0;b"},
                                                       {"a&", "a&"},
                                                       {"&&lt;", "&<"}};
  for (const auto& [written, name] : names) {
    write_set("v");
    write_text(dir / "v/Annotations/2007_2.xml", text(written));
    const SourceListing listing = value_or_throw(list({dir / "v", ""}));
    EXPECT_EQ(listing.entries[1].problem, "");
    EXPECT_EQ(std::count(listing.classes.begin(), listing.classes.end(), name), 1) << name;
  }
  for (const std::string none :
       {"ca&#0;t", "ca&#x0000;t", "ca&#4294967296;t", "ca&#xd800;t", "ca&#x110000;t", "ca&#;t"})
    EXPECT_NE(problem(text(none)).find("is not a valid XML character"), std::string::npos) << none;
  EXPECT_NE(problem(text("caf&eacute;")).find("is not an XML entity"), std::string::npos);
  EXPECT_NE(problem(text("&a;", "<!DOCTYPE annotation [<!ENTITY a \"cat\">]>")).find("defines entities"),
            std::string::npos);
  EXPECT_EQ(problem(text("cat", "<!DOCTYPE annotation SYSTEM \"voc.dtd\">")), "");
}

TEST_F(VocSource, Utf16IsReadByItsMark) {
  const std::string text = "<annotation>" + object("cow", box("1", "2", "10", "20")) + "</annotation>";
  std::string wide = "\xff\xfe";
  for (const char c : text) wide += {c, '\0'};
  EXPECT_EQ(problem(wide), "");
  EXPECT_EQ(problem("\xef\xbb\xbf" + text), "");
}

TEST_F(VocSource, PngsOfClassesAreMasks) {
  write_set("VOC2012");
  write_text(dir / "VOC2012/SegmentationClass/2007_2.png", "mask");
  write_text(dir / "VOC2012/SegmentationObject/2007_3.png", "objects");
  write_text(dir / "VOC2012/SegmentationClass/2007_9.png", "of no image");
  const SourceListing listing = value_or_throw(list({dir / "VOC2012", ""}));
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"boxes", "box_labels", "difficult", "mask"}));
  EXPECT_EQ(listing.fields[3].kind, FieldKind::kMask);
  ASSERT_EQ(listing.classes.size(), 20u) << "a mask's 1 to 20, whichever classes occur";
  EXPECT_EQ(listing.classes[7], "cat");
  EXPECT_EQ(decode_labels(listing.entries[0].extra[1]), (std::vector<int64_t>{11, 7}));
  EXPECT_EQ(listing.entries[0].extra[3], "");
  EXPECT_EQ(value_or_throw(source_->read_referred(listing.entries[1], listing.entries[1].extra[3])).size(),
            4u);
  write_text(dir / "VOC2012/SegmentationClass/2007_2.png", "other");
  EXPECT_EQ(source_->read_referred(listing.entries[1], listing.entries[1].extra[3]).status().code(),
            ErrorCode::kChanged);
}

TEST_F(VocSource, ListsMakeSplitsOfEachYear) {
  write_set("VOCdevkit/VOC2007");
  write_set("VOCdevkit/VOC2012");
  write_text(dir / "VOCdevkit/VOC2007/ImageSets/Main/trainval.txt", "2007_1\n2007_2\n");
  write_text(dir / "VOCdevkit/VOC2007/ImageSets/Main/test.txt", "2007_3\n");
  write_text(dir / "VOCdevkit/VOC2012/ImageSets/Main/train.txt", "2007_1\n");
  write_text(dir / "VOCdevkit/VOC2012/ImageSets/Main/val.txt", "2007_9\n");
  for (const std::string& root : {dir / "VOCdevkit", dir.path()}) {
    const SourceListing listing = value_or_throw(list({root, ""}));
    ASSERT_EQ(listing.entries.size(), 5u);
    std::map<std::string, std::string> splits;
    for (const SourceEntry& entry : listing.entries) splits[entry.path] = entry.split;
    EXPECT_EQ(splits, (std::map<std::string, std::string>{{"VOC2007/2007_1.jpg", "train"},
                                                          {"VOC2007/2007_2.jpg", "train"},
                                                          {"VOC2007/2007_3.jpg", "test"},
                                                          {"VOC2012/2007_1.jpg", "train"},
                                                          {"VOC2012/2007_9.jpg", "val"}}));
    for (const SourceEntry& entry : listing.entries) {
      const bool is_lost = entry.path == "VOC2012/2007_9.jpg";
      EXPECT_EQ(entry.problem, is_lost ? "there is no Annotations/2007_9.xml" : "");
    }
    EXPECT_NE(warnings_of(listing).find("2 annotations that no list"), std::string::npos);
  }
  EXPECT_EQ(value_or_throw(list({.path = dir.path(), .splits = false})).entries.size(), 6u);
}

TEST_F(VocSource, ListsOfMasksMakeTheSplitsWhereThereAreNoOthers) {
  write_set("v");
  for (const char* name : {"2007_1", "2007_2", "2007_3"})
    write_text(dir / ("v/SegmentationClass/" + std::string(name) + ".png"), "mask");
  write_text(dir / "v/ImageSets/Segmentation/train.txt", "2007_1\n");
  write_text(dir / "v/ImageSets/Segmentation/val.txt", "2007_2\n");
  write_text(dir / "v/ImageSets/Segmentation/trainval.txt", "2007_1\n2007_2\n");
  SourceListing listing = value_or_throw(list({dir / "v", ""}));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].path + listing.entries[0].split, "2007_1.jpgtrain");
  EXPECT_EQ(listing.entries[1].path + listing.entries[1].split, "2007_2.jpgval");
  EXPECT_NE(warnings_of(listing).find("1 annotation that no list of ImageSets/Segmentation names"),
            std::string::npos)
      << warnings_of(listing);
  listing = value_or_throw(list({.path = dir / "v", .splits = false}));
  EXPECT_EQ(listing.entries.size(), 3u);
  for (const SourceEntry& entry : listing.entries) EXPECT_EQ(entry.split, "");

  write_text(dir / "v/ImageSets/Main/val.txt", "2007_1\n");
  listing = value_or_throw(list({dir / "v", ""}));
  ASSERT_EQ(listing.entries.size(), 1u) << "Main's are for all images with boxes";
  EXPECT_EQ(listing.entries[0].split, "val");
  EXPECT_NE(
      warnings_of(listing).find("the lists of ImageSets/Segmentation are not used; the splits are those "
                                "of ImageSets/Main"),
      std::string::npos)
      << warnings_of(listing);
}

TEST_F(VocSource, ImagesMayLieBesideTheirXml) {
  write_text(dir / "a.png", "x");
  write_text(dir / "a.xml", xml("elsewhere.jpg", object("cat", box("1", "1", "2", "2"))));
  write_text(dir / "b.xml", xml("b.jpg", ""));
  const SourceListing listing = value_or_throw(list({dir.path(), ""}));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].path, "a.png");
  EXPECT_NE(listing.entries[1].problem.find("there is no file"), std::string::npos);
}

// As Roboflow exports them.
TEST_F(VocSource, FoldersOfSplitsHoldImagesBesideTheirXml) {
  for (const char* folder : {"train/", "valid/", "test/"}) {
    write_text(dir / (std::string(folder) + "a.jpg"), "x");
    write_text(dir / (std::string(folder) + "a.xml"), xml("a.jpg", object("cat", box("1", "1", "2", "2"))));
  }
  const SourceListing listing = value_or_throw(list({dir.path(), ""}));
  ASSERT_EQ(listing.entries.size(), 3u);
  EXPECT_EQ(listing.entries[0].path, "test/a.jpg");
  EXPECT_EQ(listing.entries[0].name(), "a.jpg");
  EXPECT_EQ(listing.entries[0].split, "test");
  EXPECT_EQ(listing.entries[1].split, "train");
  EXPECT_EQ(listing.entries[2].split, "val");
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[2])).size(), 1u);
  for (const SourceEntry& entry : value_or_throw(list({.path = dir.path(), .splits = false})).entries)
    EXPECT_EQ(entry.split, "");
}

// As CVAT writes them.
TEST_F(VocSource, FoldersInBothFoldersArePartsOfNames) {
  for (const char* name : {"a/1", "a/2", "b/1", "b/deep/1"}) {
    write_text(dir / ("v/JPEGImages/" + std::string(name) + ".jpg"), "x");
    write_text(dir / ("v/Annotations/" + std::string(name) + ".xml"),
               xml(std::string(name) + ".jpg", object("cat", box("1", "1", "2", "2"))));
  }
  write_text(dir / "v/ImageSets/Main/default.txt", "a/1\na/2\nb/1\nb/deep/1\n");
  SourceListing listing = value_or_throw(list({dir / "v", ""}));
  EXPECT_EQ(listing.classes, std::vector<std::string>{"cat"});
  std::vector<std::string> paths;
  for (const SourceEntry& entry : listing.entries) {
    paths.push_back(entry.path);
    EXPECT_EQ(entry.problem, "");
    EXPECT_EQ(floats(entry.extra[0]), (std::vector<float>{0, 0, 2, 2}));
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"a/1.jpg", "a/2.jpg", "b/1.jpg", "b/deep/1.jpg"}));
  write_text(dir / "v/ImageSets/Main/train.txt", "a/1\nb/1\n");
  write_text(dir / "v/ImageSets/Main/val.txt", "b/deep/1\n");
  write_text(dir / "v/SegmentationClass/b/1.png", "mask");
  listing = value_or_throw(list({dir / "v", ""}));
  ASSERT_EQ(listing.entries.size(), 3u);
  EXPECT_EQ(listing.entries[1].path + listing.entries[1].split, "b/1.jpgtrain");
  EXPECT_NE(listing.entries[1].extra[3], "");
  EXPECT_EQ(listing.entries[2].path + listing.entries[2].split, "b/deep/1.jpgval");
}

TEST_F(VocSource, FoldersOfXmlWithoutSuchFoldersOfImagesAreNotRead) {
  write_set("v");
  write_text(dir / "v/Annotations/old/9.xml", "x");
  EXPECT_EQ(value_or_throw(list({dir / "v", ""})).entries.size(), 3u);
  write_text(dir / "pet/images/a.jpg", "x");  // as in Oxford-IIIT Pet
  write_text(dir / "pet/annotations/xmls/a.xml", "x");
  EXPECT_EQ(std::string(value_or_throw(find_source({dir / "pet", ""}))->name), "folder");
  EXPECT_EQ(list({dir / "pet", ""}).status().code(), ErrorCode::kMisuse);
}

TEST_F(VocSource, FoldersOfImagesMayHoldTheirXml) {
  for (const char* name : {"d/a/1", "d/b/1", "s/train/a/1", "s/valid/a/1", "s/valid/b/2"}) {
    write_text(dir / (std::string(name) + ".jpg"), "x");
    write_text(dir / (std::string(name) + ".xml"), xml("1.jpg", object("cat", box("1", "1", "2", "2"))));
  }
  write_text(dir / "d/b/2.jpg", "x");
  SourceListing listing = value_or_throw(list({dir / "d", ""}));
  EXPECT_EQ(listing.classes, std::vector<std::string>{"cat"});
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[1].path, "b/1.jpg");
  EXPECT_EQ(listing.entries[1].problem, "");
  const std::string warnings = warnings_of(listing);
  EXPECT_NE(warnings.find("the images in the folders of " + (dir / "d") + " have an .xml next to them"),
            std::string::npos)
      << warnings;
  EXPECT_NE(warnings.find("ignored: 1 image without an .xml"), std::string::npos) << warnings;
  listing = value_or_throw(list({.path = dir / "d", .splits = false}));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b"})) << "each folder is a class";
  listing = value_or_throw(list({dir / "s", ""}));
  ASSERT_EQ(listing.entries.size(), 3u);
  EXPECT_EQ(listing.entries[0].path + listing.entries[0].split, "train/a/1.jpgtrain");
  EXPECT_EQ(listing.entries[2].path + listing.entries[2].split, "valid/b/2.jpgval");
}

TEST_F(VocSource, WhatIsWrongIsNamed) {
  const std::string good = object("cat", box("1", "1", "2", "2"));
  EXPECT_EQ(problem(xml("x", good)), "");
  EXPECT_NE(problem(xml("x", object("cat", box("1", "1", "2", "wide")))).find("an object's ymax is 'wide'"),
            std::string::npos);
  EXPECT_NE(problem(xml("x", object("cat", ""))).find("an object's xmin is ''"), std::string::npos);
  EXPECT_NE(problem(xml("x", object("", box("1", "1", "2", "2")))).find("has no <name>"), std::string::npos);
  EXPECT_EQ(problem(xml("x", object("cat", box("9", "1", "2", "2")))), "box 1 ends before it begins");
  EXPECT_NE(problem("<html></html>").find("no <annotation>"), std::string::npos);
  const std::string whole = xml("x", good);
  for (size_t size = 0; size < whole.size(); size += 7) EXPECT_NE(problem(whole.substr(0, size)), "") << size;
}

}  // namespace
}  // namespace dlpipe::data

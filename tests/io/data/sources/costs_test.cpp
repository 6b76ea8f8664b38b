// What it costs to list a source: of twice as much in it at most 2.2 times as many operations, and memory within a multiple of its
// bytes, whatever these claim (read_budget.h). Nothing is timed.
#include <gtest/gtest.h>
#include <lmdb.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/source.h"
#include "io/data/sources/annotations/outlines.h"
#include "io/data/sources/bytes/scratch_file.h"
#include "io/data/sources/inputs/inputs.h"
#include "io/data/sources/source_file.h"
#include "tests/base/test_file.h"
#include "tests/io/data/sources/counted.h"
#include "tests/io/data/sources/tar_writing.h"
#include "tests/io/data/sources/wire_writing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

namespace fs = std::filesystem;

/// Writes a source of `count` things into the folder SRC; answers what of it to give.
using Make = std::function<std::string(const std::string& folder, int count)>;

std::string times(int count, const std::function<std::string(int)>& piece) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece(i);
  return text;
}
std::string number(int i) {
  const std::string digits = std::to_string(i);
  return std::string(digits.size() < 7 ? 7 - digits.size() : 0, '0') + digits;
}
std::string file(const std::string& path, const std::string& text) {
  write_text(path, text);
  return path;
}

std::string deflated(const std::string& text, int window) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, window, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}
std::string gzipped(const std::string& text) {
  return deflated(text, 15 + 16);
}

std::string npy(const std::string& dtype, const std::string& shape, const std::string& data) {
  std::string dict = "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  dict += std::string(63 - (10 + dict.size()) % 64, ' ') + "\n";
  return "\x93NUMPY\x01" + std::string(1, '\0') + le_bytes(dict.size(), 2) + dict + data;
}
std::string npz(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string zip;
  std::string directory;
  for (const auto& [name, data] : members) {
    const std::string packed = deflated(data, -15);
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
    const std::string sizes =
        le_bytes(crc, 4) + le_bytes(packed.size(), 4) + le_bytes(data.size(), 4) + le_bytes(name.size(), 2);
    directory += "PK\x01\x02" + le_bytes(20, 2) + le_bytes(20, 2) + le_bytes(0, 2) + le_bytes(8, 2) +
                 le_bytes(0, 4) + sizes + le_bytes(0, 12) + le_bytes(zip.size(), 4) + name;
    zip += "PK\x03\x04" + le_bytes(20, 2) + le_bytes(0, 2) + le_bytes(8, 2) + le_bytes(0, 4) + sizes +
           le_bytes(0, 2) + name + packed;
  }
  return zip + directory + "PK\x05\x06" + le_bytes(0, 4) + le_bytes(members.size(), 2) +
         le_bytes(members.size(), 2) + le_bytes(directory.size(), 4) + le_bytes(zip.size(), 4) +
         le_bytes(0, 2);
}
/// A zip archive whose directory names one deflated piece again and again.
std::string npz_of_one_piece(int count, const std::string& data) {
  const std::string zip = npz({{"x0000000.npy", data}});
  const size_t directory = zip.find("PK\x01\x02");
  const size_t end = zip.find("PK\x05\x06");
  const std::string row = zip.substr(directory, end - directory - std::string("x0000000.npy").size());
  const std::string rows = times(count, [&](int i) { return row + "x" + number(i) + ".npy"; });
  return zip.substr(0, directory) + rows + "PK\x05\x06" + le_bytes(0, 4) +
         le_bytes(static_cast<uint64_t>(count), 2) + le_bytes(static_cast<uint64_t>(count), 2) +
         le_bytes(rows.size(), 4) + le_bytes(directory, 4) + le_bytes(0, 2);
}
std::string idx(const std::vector<uint32_t>& dims, size_t items) {
  std::string text("\0\0\x08", 3);
  text += static_cast<char>(dims.size());
  for (const uint32_t dim : dims)
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(dim >> shift);
  return text + std::string(items, '\1');
}
/// Samples that all name one raw image of 1x1, and one text.
std::string beton(int count, const std::string& text) {
  const auto field = [](int kind, std::string name) {
    name.resize(16 + 1024);
    return std::string(1, static_cast<char>(kind)) + name;
  };
  const std::string fields = field(2, "image") + field(1, "label") + field(3, "note");
  const uint64_t begin = 24 + fields.size() + 40 * static_cast<uint64_t>(count);
  const std::string rows = times(count, [&](int i) {
    return le_bytes(1, 1) + le_bytes(1, 2) + le_bytes(1, 2) + le_bytes(begin, 8) + std::string(3, '\0') +
           le_bytes(static_cast<uint64_t>(i % 9), 8) + le_bytes(begin + 3, 8) + le_bytes(text.size(), 8);
  });
  const std::string pieces = le_bytes(0, 8) + le_bytes(begin, 8) + le_bytes(3, 8) + le_bytes(0, 8) +
                             le_bytes(begin + 3, 8) + le_bytes(text.size(), 8);
  return le_bytes(2, 2) + le_bytes(3, 2) + le_bytes(1 << 21, 4) + le_bytes(static_cast<uint64_t>(count), 8) +
         le_bytes(begin + 3 + text.size(), 8) + fields + rows + "rgb" + text + pieces;
}
std::string lmdb(const std::string& folder, int count) {
  fs::create_directories(folder);
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  EXPECT_EQ(mdb_env_create(&env), 0);
  EXPECT_EQ(mdb_env_set_mapsize(env, size_t{64} << 20), 0);
  EXPECT_EQ(mdb_env_open(env, folder.c_str(), MDB_NOLOCK, 0644), 0);
  EXPECT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  EXPECT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
  for (int i = 0; i < count; ++i) {
    std::string key = number(i);
    std::string value =
        wire_number(1, 1) + wire_number(2, 1) + wire_number(3, 1) + wire_bytes(4, "x") + wire_number(5, 3);
    MDB_val k{key.size(), key.data()};
    MDB_val v{value.size(), value.data()};
    EXPECT_EQ(mdb_put(txn, dbi, &k, &v, 0), 0);
  }
  EXPECT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
  return folder;
}
/// `count` files that are no images but are called so.
void images(const std::string& folder, int count, const std::string& ending = ".jpg") {
  for (int i = 0; i < count; ++i) write_text(folder + "/" + number(i) + ending, "x");
}

struct Case {
  std::string source;  // its name in the table of sources
  std::string what;
  int count;
  Make make;
};

std::vector<Case> cases() {
  const auto tar = [](const std::function<std::string(int)>& piece) {
    return Make([piece](const std::string& dir, int count) {
      return file(dir + "/a.tar", times(count, piece) + tar_end());
    });
  };
  const auto list = [](const std::string& name, const std::string& head,
                       const std::function<std::string(int)>& line) {
    return Make([=](const std::string& dir, int count) {
      write_text(dir + "/p.jpg", "x");
      return file(dir + "/" + name, head + times(count, line));
    });
  };
  return {
      {"folder", "classes", 300,
       [](const std::string& dir, int count) {
         for (int i = 0; i < count; ++i)
           write_text(dir + "/s/c" + number(i / 4) + "/" + number(i) + ".jpg", "x");
         return dir + "/s";
       }},
      {"imagefolder", "rows", 1000,
       [](const std::string& dir, int count) {
         write_text(dir + "/p.jpg", "x");
         write_text(dir + "/metadata.csv",
                    "file_name,label\n" + times(count, [](int i) { return number(i) + ".jpg,a\n"; }));
         return dir;
       }},
      {"imagefolder", "keys of objects", 3000,
       [](const std::string& dir, int count) {
         write_text(dir + "/metadata.jsonl",
                    "{\"file_name\": \"p.jpg\", \"objects\": [{\"bbox\": [0,0,1,1]" +
                        times(count, [](int i) { return "}, {\"k" + number(i) + "\": 1"; }) + "}]}\n");
         return dir;
       }},
      {"manifest", "rows of CSV", 4000,
       list("l.csv", "path,label,note\n", [](int i) { return number(i) + ".jpg,a,b\n"; })},
      {"manifest", "columns of CSV", 20000, list("l.csv", "path", [](int i) { return ",c" + number(i); })},
      {"manifest", "rows of JSON", 4000,
       list("l.jsonl", "", [](int i) { return "{\"path\": \"" + number(i) + ".jpg\", \"label\": 1}\n"; })},
      {"manifest", "keys of JSON", 20000,
       list("l.jsonl", "{\"path\": \"p.jpg\"", [](int i) { return ", \"c" + number(i) + "\": 1"; })},
      {"manifest", "keys in a value of JSON", 20000,
       list("l.jsonl", "{\"path\": \"p.jpg\", \"label\": 1, \"x\": {\"a\": 1",
            [](int i) { return ", \"c" + number(i) + "\": 1"; })},
      {"manifest", "classes that a first line names", 4000,
       [](const std::string& dir, int count) {
         return file(dir + "/l.jsonl", "{\"fields\": [], \"classes\": [\"c\"" +
                                           times(count, [](int i) { return ",\"" + number(i) + "\""; }) +
                                           "]}\n" + times(count, [](int i) {
                                             return "{\"path\": \"" + number(i) + ".jpg\", \"label\": \"" +
                                                    number(i) + "\"}\n";
                                           }));
       }},
      {"idx", "images", 4000,
       [](const std::string& dir, int count) {
         write_text(dir + "/x-images-idx3-ubyte",
                    idx({static_cast<uint32_t>(count), 1, 1}, static_cast<size_t>(count)));
         write_text(dir + "/x-labels-idx1-ubyte",
                    idx({static_cast<uint32_t>(count)}, static_cast<size_t>(count)));
         return dir;
       }},
      {"parquet", "bytes", 1000, list("t.parquet", "PAR1", [](int) { return "x"; })},
      {"tar", "frames of one name up to the first dot", 3000,
       tar([](int i) { return tar_header("a/frame." + number(i) + ".jpg", 0); })},
      {"tar", "class folders", 3000,
       tar([](int i) { return tar_header("c" + number(i / 3) + "/" + number(i) + ".jpg", 0); })},
      {"tar", "samples with JSON", 1500, tar([](int i) {
         return tar_header(number(i) + ".jpg", 0) + tar_file(number(i) + ".json", "{\"label\": 1}");
       })},
      {"tar", "texts of one sample", 3000,
       tar([](int i) { return tar_header(i == 0 ? "a.jpg" : "a.t" + number(i) + ".txt", 0); })},
      {"tar", "archives", 300,
       tar([](int i) { return tar_file("c" + number(i) + ".tar", tar_header("1.jpg", 0) + tar_end()); })},
      {"cifar", "records", 200,
       [](const std::string& dir, int count) {
         write_text(dir + "/s/data_batch_1.bin", std::string(3073 * static_cast<size_t>(count), '\1'));
         return dir + "/s";
       }},
      {"tfrecord", "records", 2000,
       [](const std::string& dir, int count) {
         const std::string one = tfrecord(bytes_feature("image", "x") + number_feature("label", 1));
         return file(dir + "/a.tfrecord", times(count, [&](int) { return one; }));
       }},
      {"caffe_list", "lines", 4000, list("l.lst", "p.jpg 0\n", [](int i) { return number(i) + ".jpg 1\n"; })},
      {"caffe_lmdb", "records", 2000,
       [](const std::string& dir, int count) { return lmdb(dir + "/db", count); }},
      {"beton", "samples", 2000,
       [](const std::string& dir, int count) { return file(dir + "/a.beton", beton(count, "note")); }},
      {"box_list", "lines", 3000,
       list("l.csv", "filename,width,height,class,xmin,ymin,xmax,ymax\np.jpg,9,9,a,0,0,1,1\n",
            [](int i) { return number(i) + ".jpg,9,9,a,0,0,1,1\n"; })},
      {"coco", "images and objects", 1500,
       [](const std::string& dir, int count) {
         fs::create_directories(dir + "/images");
         write_text(dir + "/images/p.jpg", "x");
         return file(dir + "/c.json",
                     "{\"categories\": [{\"id\": 1, \"name\": \"a\"}], \"images\": [{\"id\": 9999999, "
                     "\"file_name\": \"p.jpg\"}" +
                         times(count,
                               [](int i) {
                                 return ",{\"id\": " + std::to_string(i) + ", \"file_name\": \"" + number(i) +
                                        ".jpg\"}";
                               }) +
                         "], \"annotations\": [{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0,0,1,1]}" +
                         times(count,
                               [](int i) {
                                 return ",{\"image_id\": " + std::to_string(i) +
                                        ", \"category_id\": 1, \"bbox\": [0,0,1,1]}";
                               }) +
                         "]}");
       }},
      {"voc", "objects of one image", 2000,
       [](const std::string& dir, int count) {
         write_text(dir + "/v/JPEGImages/1.jpg", "x");
         write_text(dir + "/v/Annotations/1.xml",
                    "<annotation>" + times(count, [](int i) {
                      return "<object><name>c" + number(i) +
                             "</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></"
                             "bndbox></object>";
                    }) + "</annotation>");
         return dir + "/v";
       }},
      {"yolo", "lines of a list that names one image", 1000,
       [](const std::string& dir, int count) {
         write_text(dir + "/images/1.jpg", "x");
         write_text(dir + "/labels/1.txt", "0 .5 .5 1 1\n");
         write_text(dir + "/train.txt", times(count, [](int) { return "images/1.jpg\n"; }));
         return file(dir + "/data.yaml", "train: train.txt\nnames: [a]\n");
       }},
      {"yolo", "names", 2000,
       [](const std::string& dir, int count) {
         write_text(dir + "/images/1.jpg", "x");
         write_text(dir + "/labels/1.txt", "0 .5 .5 1 1\n");
         return file(dir + "/data.yaml", "train: images\nnames:\n" +
                                             times(count, [](int i) { return "- n" + number(i) + "\n"; }));
       }},
      {"segmentation", "pairs", 200,
       [](const std::string& dir, int count) {
         images(dir + "/s/images", count);
         images(dir + "/s/masks", count, ".png");
         return dir + "/s";
       }},
      {"numpy", "samples", 4000,
       [](const std::string& dir, int count) {
         write_text(dir + "/images.npy", npy("|u1", std::to_string(count) + ", 1, 1",
                                             std::string(static_cast<size_t>(count), '\1')));
         write_text(dir + "/labels.npy",
                    npy("|u1", std::to_string(count) + ",", std::string(static_cast<size_t>(count), '\1')));
         return dir;
       }},
      {"text", "characters", 40000,
       [](const std::string& dir, int count) {
         return file(dir + "/t.txt",
                     times(count, [](int i) { return std::string(1, static_cast<char>('a' + i % 26)); }));
       }},
  };
}

Result<SourceListing> list_of(std::span<const std::string> given, const std::string& scratch) {
  SourceOptions options;
  options.scratch = std::make_shared<ScratchSpace>(scratch);
  DLPIPE_ASSIGN_OR_RETURN(const auto source, open_sources(given, "", options));
  return source->list();
}
Cost cost_of(const std::vector<std::string>& given, const std::string& scratch) {
  const Counting counting;
  { const auto listing = list_of(given, scratch); }
  return counting.cost();
}
uint64_t bytes_below(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

// A sort of a few thousand costs 2.2 times as much for twice as many.
constexpr double kMostGrowth = 2.3;

TEST(Costs, TwiceAsMuchInASourceCostsTwiceAsMuch) {
  std::set<std::string> seen;
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.source + ", " + one.what);
    seen.insert(one.source);
    std::array<Cost, 2> costs;
    for (const int factor : {1, 2}) {
      TempDir dir;
      const std::string given = one.make(dir / "src", factor * one.count);
      SourceOptions options;
      options.path = given;
      const auto record = find_source(options);
      ASSERT_TRUE(record.ok()) << record.status().message();
      ASSERT_EQ((*record)->name, one.source);
      fs::create_directories(dir / "scratch");
      costs[static_cast<size_t>(factor - 1)] = cost_of({given}, dir / "scratch");
    }
    constexpr double kFew = 2000;
    EXPECT_LE(static_cast<double>(costs[1].operations),
              kMostGrowth * static_cast<double>(costs[0].operations) + kFew)
        << costs[0].operations << " operations before";
  }
  for (const SourceRecord* record : source_table())
    EXPECT_TRUE(seen.contains(record->name)) << record->name << ": what does twice as much cost?";
}

TEST(Costs, TwiceAsManySourcesCostTwiceAsMuch) {
  std::array<uint64_t, 2> operations{};
  for (const int factor : {1, 2}) {
    TempDir dir;
    std::vector<std::string> shards;
    for (int i = 0; i < 100 * factor; ++i)
      shards.push_back(file(dir / ("s-" + number(i) + ".tar"),
                            tar_header("1.jpg", 0) + tar_file("1.cls", std::to_string(i % 5)) + tar_end()));
    operations[static_cast<size_t>(factor - 1)] = cost_of(shards, dir.path()).operations;
  }
  EXPECT_LE(static_cast<double>(operations[1]), kMostGrowth * static_cast<double>(operations[0]));
}

struct Hostile {
  std::string what;
  std::function<std::string(const std::string& folder)> make;
};

std::vector<Hostile> hostile_files() {
  const auto tar = [](const std::string& dir, const std::string& text) {
    return file(dir + "/a.tar", text + tar_end());
  };
  return {
      {"JSON lines, one of which has 4,000 keys",
       [](const std::string& dir) {
         return file(dir + "/l.jsonl", "{\"path\": \"p.jpg\"" +
                                           times(4000, [](int i) { return ", \"c" + number(i) + "\": 1"; }) +
                                           "}\n" +
                                           times(30000, [](int) { return "{\"path\": \"p.jpg\"}\n"; }));
       }},
      {"JSON lines, one of which has 1,000 keys",
       [](const std::string& dir) {
         return file(dir + "/l.jsonl",
                     "{\"path\": \"p.jpg\"" +
                         times(1000, [](int i) { return ", \"c" + number(i) + "\": 1"; }) + "}\n" +
                         times(30000, [](int i) { return "{\"path\": \"" + number(i) + "\"}\n"; }));
       }},
      {"JSON lines, each with a key of its own",
       [](const std::string& dir) {
         return file(dir + "/l.jsonl", times(20000, [](int i) {
                       return "{\"path\": \"" + number(i) + "\", \"c" + number(i) + "\": 1}\n";
                     }));
       }},
      {"a row of many cells and a column of objects without a common key",
       [](const std::string& dir) {
         write_text(dir + "/metadata.jsonl",
                    "{\"file_name\": \"p.jpg\", \"objects\": [{\"bbox\": [0,0,1,1]" +
                        times(25000, [](int i) { return "}, {\"k" + number(i) + "\": 1"; }) + "}]}\n");
         return dir;
       }},
      {"rows of objects, each with keys of its own",
       [](const std::string& dir) {
         write_text(dir + "/metadata.jsonl", times(5000, [](int i) {
                      return "{\"file_name\": \"" + number(i) +
                             ".jpg\", \"objects\": {\"bbox\": [[0,0,1,1]], \"k" + number(i) + "\": [1]}}\n";
                    }));
         return dir;
       }},
      {"CSV with 60,000 columns",
       [](const std::string& dir) {
         return file(dir + "/l.csv",
                     "path,label" + times(60000, [](int i) { return "," + std::to_string(i); }) + "\n");
       }},
      {"CSV of commas",
       [](const std::string& dir) {
         return file(
             dir + "/l.csv",
             "path,label" + times(1000, [](int i) { return ",c" + std::to_string(i); }) + "\n" +
                 times(500, [](int i) { return std::to_string(i) + ",a" + std::string(1000, ',') + "\n"; }));
       }},
      {"an .npz of four million images of 1x1",
       [](const std::string& dir) {
         return file(dir + "/a.npz", npz({{"x.npy", npy("|u1", "4000000, 1, 1", std::string(4000000, '\0'))},
                                          {"y.npy", npy("|u1", "4000000,", std::string(4000000, '\0'))}}));
       }},
      {"an .npz with a million names of classes",
       [](const std::string& dir) {
         return file(dir + "/a.npz",
                     npz({{"x.npy", npy("|u1", "1, 1, 1", "x")},
                          {"y.npy", npy("|u1", "1,", std::string(1, '\0'))},
                          {"label_names.npy", npy("|S1", "8000000,", std::string(8000000, 'a'))}}));
       }},
      {"many small .npz, of 100,000 images each",
       [](const std::string& dir) {
         for (int i = 0; i < 20; ++i)
           file(dir + "/" + number(i) + ".npz",
                npz({{"x.npy", npy("|u1", "100000, 1, 1", std::string(100'000, '\0'))}}));
         return dir + "/*.npz";
       }},
      {"many small tables of JSON lines, each with a key of its own on every line",
       [](const std::string& dir) {
         for (int n = 0; n < 20; ++n)
           file(dir + "/" + number(n) + ".jsonl", times(1000, [](int i) {
                  return "{\"path\": \"" + std::to_string(i) + "\", \"label\": 1, \"c" + std::to_string(i) +
                         "\": 1}\n";
                }));
         return dir + "/*.jsonl";
       }},
      {"images that compress to nothing",
       [](const std::string& dir) {
         write_text(dir + "/x-images-idx3-ubyte.gz", gzipped(idx({40000, 50, 40}, 80'000'000)));
         write_text(dir + "/x-labels-idx1-ubyte.gz", gzipped(idx({40000}, 40000)));
         return dir;
       }},
      {"a .beton whose samples name one text",
       [](const std::string& dir) {
         return file(dir + "/a.beton", beton(1500, std::string(2'500'000, 'a')));
       }},
      {"a tar whose links name one text",
       [&](const std::string& dir) {
         return tar(dir, tar_file("0.txt", std::string(1'000'000, 'a')) + times(1500, [](int i) {
                           return tar_header(number(i) + ".jpg", 0) +
                                  tar_header(number(i) + ".txt", 0, '1', "0.txt");
                         }));
       }},
      {"a packed tar of empty files",
       [](const std::string& dir) {
         return file(dir + "/a.tar.gz",
                     gzipped(times(60000, [](int i) { return tar_header("c/" + number(i) + ".jpg", 0); }) +
                             tar_end()));
       }},
      {"samples of a tar with as many texts",
       [&](const std::string& dir) {
         return tar(dir, times(1000, [](int i) { return tar_header(number(i) + ".jpg", 0); }) +
                             times(1000, [](int i) {
                               return tar_header(number(i) + ".t" + number(i) + ".txt", 0);
                             }));
       }},
      {"a packed TFRecord of small records",
       [](const std::string& dir) {
         const std::string one = tfrecord(bytes_feature("image", "x") + number_feature("label", 1));
         return file(dir + "/a.tfrecord.gz", gzipped(times(400000, [&](int) { return one; })));
       }},
      {"YAML whose aliases name one text",
       [](const std::string& dir) {
         write_text(dir + "/images/1.jpg", "x");
         return file(dir + "/data.yaml", "train: images\nx: &a " + std::string(150000, 'a') + "\nnames: [*a" +
                                             times(40000, [](int) { return ",*a"; }) + "]\n");
       }},
      {"YAML of short names",
       [](const std::string& dir) {
         write_text(dir + "/images/1.jpg", "x");
         return file(dir + "/data.yaml",
                     "train: images\nnames: [a" + times(100000, [](int) { return ",a"; }) + "]\n");
       }},
      {"XML of empty elements",
       [](const std::string& dir) {
         write_text(dir + "/v/JPEGImages/1.jpg", "x");
         write_text(dir + "/v/Annotations/1.xml",
                    "<annotation>" + times(100000, [](int) { return "<a/>"; }) + "</annotation>");
         return dir + "/v";
       }},
      {"a list of VOC's that names one XML again and again",
       [](const std::string& dir) {
         write_text(dir + "/v/JPEGImages/1.jpg", "x");
         write_text(dir + "/v/Annotations/1.xml",
                    "<annotation>" + times(3000, [](int) {
                      return "<object><name>c</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</"
                             "xmax><ymax>2</ymax></bndbox></object>";
                    }) + "</annotation>");
         write_text(dir + "/v/ImageSets/Main/train.txt", times(3000, [](int) { return "1\n"; }));
         return dir + "/v";
       }},
      {"key points that hardly any object has",
       [](const std::string& dir) {
         write_text(dir + "/images/p.jpg", "x");
         return file(
             dir + "/c.json",
             "{\"categories\": [{\"id\": 1, \"name\": \"a\", \"keypoints\": [1" +
                 times(4000, [](int) { return ",1"; }) +
                 "]}], \"images\": [{\"id\": 1, \"file_name\": \"p.jpg\"}], \"annotations\": [{\"image_id\": "
                 "1, \"category_id\": 1, \"bbox\": [0,0,1,1]}" +
                 times(10000,
                       [](int) { return ",{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0,0,1,1]}"; }) +
                 "]}");
       }},
      {"JSON of empty lists",
       [](const std::string& dir) {
         write_text(dir + "/images/p.jpg", "x");
         return file(dir + "/c.json", "{\"images\": [], \"annotations\": [], \"categories\": [], \"x\": [[]" +
                                          times(200000, [](int) { return ",[]"; }) + "]}");
       }},
      {"a text of single letters",
       [](const std::string& dir) { return file(dir + "/t.txt", std::string(1'000'000, 'a')); }},
  };
}

// What the budget counts is what is made, not how vectors grow.
constexpr uint64_t kMostTimesBudget = 3;

void expect_within_budget(const std::string& given, const std::string& folder, const std::string& scratch) {
  const Cost cost = cost_of({given}, scratch);
  const uint64_t bytes = bytes_below(folder);
  EXPECT_LE(cost.peak_bytes, kMostTimesBudget * ReadBudget::most(bytes))
      << human_bytes(cost.peak_bytes) << " for " << human_bytes(bytes);
}

TEST(Costs, MemoryIsWithinAMultipleOfTheBytesWhateverTheyClaim) {
  for (const Hostile& one : hostile_files()) {
    SCOPED_TRACE(one.what);
    TempDir dir;
    fs::create_directories(dir / "src");
    fs::create_directories(dir / "scratch");
    const std::string given = one.make(dir / "src");
    expect_within_budget(given, dir / "src", dir / "scratch");
  }
}

struct Unpacked {
  Status status;
  size_t entries = 0;
  uint64_t bytes = 0;  // in the scratch file
};
Unpacked unpacked_of(const std::string& npz_bytes) {
  TempDir dir;
  SourceOptions options;
  options.path = file(dir / "a.npz", npz_bytes);
  options.scratch = std::make_shared<ScratchSpace>(dir.path());
  const auto listing = value_or_throw(open_source(options))->list();
  return {listing.status(), listing.ok() ? listing->entries.size() : 0,
          value_or_throw(options.scratch->file())->size_bytes()};
}

TEST(Costs, MembersOfAZipThatShareBytesAreRefusedBeforeOneIsUnpacked) {
  const std::string data = npy("|u1", "4, 100, 100", std::string(40000, '\0'));
  const Unpacked shared = unpacked_of(npz_of_one_piece(400, data));
  EXPECT_EQ(shared.status.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(shared.bytes, 0u);
  const Unpacked alone = unpacked_of(npz_of_one_piece(1, data));
  EXPECT_EQ(alone.entries, 4u) << alone.status.message();
  EXPECT_EQ(alone.bytes, data.size());
}

TEST(Costs, ArraysOfAZipAreJudgedByTheirHeadersBeforeTheyAreUnpacked) {
  const std::string images = npy("|u1", "4, 10, 10", std::string(400, '\0'));
  const std::string labels = npy("|u1", "4", std::string("\0\1\0\1", 4));
  const Unpacked two = unpacked_of(npz({{"x_a.npy", images}, {"x_b.npy", images}}));
  EXPECT_EQ(two.status.code(), ErrorCode::kMisuse);
  EXPECT_EQ(two.bytes, 0u);
  const Unpacked used = unpacked_of(npz({{"notes.npy", npy("<f8", "1000000", std::string(8'000'000, '\0'))},
                                         {"x.npy", images},
                                         {"y.npy", labels}}));
  EXPECT_EQ(used.entries, 4u) << used.status.message();
  EXPECT_EQ(used.bytes, images.size() + labels.size()) << "the array that nothing uses stays packed";
}

TEST(Costs, WhatAZipUnpacksToIsWithinTheBudget) {
  // 120 million zeros deflate to some 120 KB.
  const Unpacked bomb =
      unpacked_of(npz({{"x.npy", npy("|u1", "12, 2500, 4000", std::string(120'000'000, '\0'))}}));
  EXPECT_EQ(bomb.status.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(bomb.bytes, 0u);
}

/// What reading the only entry of a packed tar holds, and what it returns.
std::pair<Cost, Result<size_t>> reading_cost(const std::string& image) {
  TempDir dir;
  SourceOptions options;
  options.path = file(dir / "a.tar.gz", gzipped(tar_file("c/1.jpg", image) + tar_end()));
  options.scratch = std::make_shared<ScratchSpace>(dir.path());
  const auto source = value_or_throw(open_source(options));
  const SourceListing listing = value_or_throw(source->list());
  const Counting counting;
  const auto bytes = source->read(listing.entries.at(0));
  return {counting.cost(), bytes.ok() ? Result<size_t>(bytes->size()) : bytes.status()};
}

TEST(Costs, APackedMemberThatIsNoImageIsNotReadWhole) {
  const auto [cost, read] = reading_cost(std::string(40'000'000, '\0'));
  EXPECT_EQ(read.status().code(), ErrorCode::kCorrupt);
  EXPECT_LE(cost.peak_bytes, uint64_t{1} << 20);
}

TEST(Costs, APackedMemberIsReadWithinTheBudgetOfItsArchive) {
  const std::string begin("\xff\xd8\xff\xe0", 4);
  const auto [cost, read] = reading_cost(begin + std::string(120'000'000, '\0'));
  EXPECT_EQ(read.status().code(), ErrorCode::kUnsupported);
  EXPECT_LE(cost.peak_bytes, uint64_t{1} << 20);
  const std::string large = begin + std::string(3'000'000, '\1');
  EXPECT_EQ(value_or_throw(reading_cost(large).second), large.size());
}

TEST(Costs, MemoryOfWhatFuzzersFoundIsWithinItToo) {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {"tar", "x.tar"},   {"tfrecord", "x.tfrecord"}, {"manifest", "x.csv"},     {"manifest", "x.jsonl"},
      {"numpy", "x.npz"}, {"numpy", "images.npy"},    {"annotations", "x.json"}, {"text", "x.txt"}};
  size_t files = 0;
  for (const auto& [corpus, name] : kinds) {
    for (const auto& entry : fs::directory_iterator(test_file("fuzz/corpus/" + corpus))) {
      SCOPED_TRACE(entry.path().string());
      TempDir dir;
      fs::create_directories(dir / "src");
      fs::create_directories(dir / "scratch");
      fs::copy_file(entry.path(), dir / ("src/" + name));
      expect_within_budget(dir / ("src/" + name), dir / "src", dir / "scratch");
      ++files;
    }
  }
  EXPECT_GT(files, 20u);
}

TEST(Costs, AMaskTakesWhatItsImageTakesHoweverLongItsOutlinesAre) {
  constexpr int kWidth = 6700;
  constexpr int kHeight = 40;
  constexpr uint64_t kPixels = uint64_t{kWidth} * kHeight;
  const std::vector<int64_t> labels = {0};
  for (const int points : {200, 40000}) {
    Outline outline;
    outline.polygons.emplace_back();
    for (int i = 0; i < points; ++i) {
      outline.polygons[0].push_back(i % 2 == 0 ? 0 : kWidth);
      outline.polygons[0].push_back(i * double{kHeight} / points);
    }
    const Counting counting;
    const auto mask = draw_mask({&outline, 1}, labels, kWidth, kHeight, false);
    EXPECT_EQ(mask.ok(), points == 200) << "the longer one is refused before it is drawn";
    EXPECT_LE(counting.cost().peak_bytes, 4 * kPixels);
  }
}

}  // namespace
}  // namespace dlpipe::data

// What the documents claim about the tree: files they link to or name, programs, and options.
#pragma once

#include <string>
#include <vector>

namespace convoy::house {

/// A claim and the line it stands in.
struct Claim {
  std::string text;
  int line = 0;
  bool operator==(const Claim&) const = default;
};

/// Targets of Markdown links that point into the tree, without #anchors. Web addresses and pure anchors are
/// left out.
std::vector<Claim> relative_links(const std::string& markdown);

/// Everything in code (inline or in a block) that starts with a folder of the tree and a slash: "scripts/demo",
/// "nets/glyphs.yaml". Left out are paths that stand for many: with a sign such as * or <, or with NAME, NET or FOLDER
/// in them.
std::vector<Claim> named_paths(const std::string& markdown);

/// Long options ("--listen") in code, with the program ("convoy-master train") whose heading or command line
/// they stand under. A table belongs to the program named last, in code, before it.
struct OptionClaim {
  std::string program;
  std::string option;
  int line = 0;
  bool operator==(const OptionClaim&) const = default;
};
std::vector<OptionClaim> named_options(const std::string& markdown);

/// The options of tables whose rows begin with an option: "| `--data FOLDER` | train, test | ...". The program is in the
/// heading above. Where the table has a second column "commands", there is a claim for each command of the row.
std::vector<OptionClaim> option_rows(const std::string& markdown);

/// The tag of each fenced block, such as "sh", and the line where the block begins.
std::vector<Claim> block_tags(const std::string& markdown);

/// A row "| `core/` | what is there | what it may include |": the folder without its slash, and the words of the last cell.
struct FolderRow {
  std::string folder;
  std::vector<std::string> may_include;
  int line = 0;
  bool operator==(const FolderRow&) const = default;
};
std::vector<FolderRow> folder_rows(const std::string& markdown);

}  // namespace convoy::house

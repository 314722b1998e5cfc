#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "core/output.hpp"
#include "core/stop_signal.hpp"
#include "core/text.hpp"
#include "devices/paced_device.hpp"
#include "master/commands/ensemble_member.hpp"
#include "master/commands/load_net.hpp"
#include "master/commands/options.hpp"
#include "master/commands/passes_at_once.hpp"
#include "master/commands/run_options.hpp"
#include "master/report/predictions.hpp"
#include "master/report/test_report.hpp"
#include "master/report/text_observer.hpp"
#include "model/ensemble_scores.hpp"
#include "nets/onnx/ensemble.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

const char* combination_text(Combination how) {
  switch (how) {
    case Combination::probabilities: return "mean of probabilities";
    case Combination::logits: return "mean of logits";
    case Combination::votes: return "majority of votes";
  }
  return "";
}

std::vector<EnsembleMember> read_members(const EnsembleOptions& options) {
  std::vector<EnsembleMember> members;
  for (const std::string& name : options.members) members.push_back(read_member(name, options.net.batch));
  expect_same_classes(members);
  expect_combinable(members, options.how);
  return members;
}

/// The data of the members' runs, unless the command line gives others.
void take_data_of_runs(const std::vector<EnsembleMember>& members, EnsembleOptions& options) {
  std::string from;  // the member that named the data
  for (const EnsembleMember& each : members) {
    const auto data = each.net.run.find("data");
    if (data == each.net.run.end() || options.has_data) continue;
    if (!from.empty() && place_of_data(options.net.data) != place_of_data(data->second)) {
      fail("{} was trained on {} and {} on {}; say with --data on which images the ensemble is tested", from,
           options.net.data, each.name, data->second);
    }
    options.net.data = data->second;
    from = each.name;
  }
  const auto of_first = [&](const char* name) -> std::optional<std::string> {
    const auto found = members.front().net.run.find(name);
    return found == members.front().net.run.end() ? std::nullopt : std::optional(found->second);
  };
  if (const auto corrupt = of_first("corrupt"); corrupt && !options.has_corrupt) {
    options.net.corrupt = *corrupt == "skip" ? Corrupt::skip : Corrupt::refuse;
  }
  if (const auto seed = of_first("seed"); seed && !options.has_seed) {
    try {
      options.net.seed = std::stoull(*seed);
    } catch (const std::exception&) {
      fail("{}: its run has the seed '{}', which is no whole number; give --seed", members.front().name,
           printable(*seed, 40));
    }
  }
}

struct MemberResult {
  std::string name;
  double accuracy = 0.0;
  double loss = 0.0;
};

/// One call of `convoy-master ensemble`.
class EnsembleCommand {
 public:
  explicit EnsembleCommand(const EnsembleOptions& options)
      : options_(options), members_(read_members(options_)), stop_(catch_stop_signals()) {
    for (const EnsembleMember& each : members_) {
      if (names_.empty()) names_ = each.net.class_names;
    }
    const bool tells_more = options_.images.empty() || options_.cluster.slaves > 0;
    if (options_.net.format == "text" && tells_more) observers_.push_back(make_text_observer());
  }

  int test() {
    take_data_of_runs(members_, options_);
    open_images();
    const DataSet& data = data_.front().images;
    if (names_.empty()) names_ = data.class_names;
    notice(observers_, fmt::format("testing {} members, {}, on the {} test images of {}", members_.size(),
                                   options_.in_turn ? "one after another" : "each on one machine", data.test.count(),
                                   options_.net.data));
    EnsembleScores scores(options_.how, count(), data.test.count(), members_.front().net.classes);
    std::vector<std::string> wrong(data.test.labels.size());
    std::vector<MemberResult> results;
    const auto test_images = [&](const EnsembleMember& member) { return images_of_test(member.net); };
    const bool whole = compute(test_images, "the member was tested", [&](const MemberPass& pass) {
      const Evaluation found = pass.evaluation();
      add(pass, scores, wrong);
      results.push_back({.name = pass.member().name, .accuracy = found.accuracy, .loss = found.loss});
      notice(observers_,
             fmt::format("{}: accuracy {:.2f} %, loss {:.4f}", pass.member().name, 100.0 * found.accuracy, found.loss));
    });
    if (!whole) return kInterrupted;
    report(results, scores, data.test.labels);
    return kSuccess;
  }

  int predict() {
    for (const EnsembleMember& each : members_) expect_scales(each.net);
    const std::vector<std::string> files = image_files(options_.images);
    EnsembleScores scores(options_.how, count(), static_cast<long>(files.size()), members_.front().net.classes);
    std::vector<std::string> wrong(files.size());
    const auto images = [&](const EnsembleMember& member) { return images_of_files(files, member.net); };
    const bool whole =
        compute(images, "all images are classified", [&](const MemberPass& pass) { add(pass, scores, wrong); });
    if (!whole) return kInterrupted;
    const bool probabilities = options_.how == Combination::probabilities;
    const PredictionStyle style{.class_names = names_,
                                .top = options_.top,
                                .format = options_.net.format,
                                .shares = options_.how != Combination::logits,
                                .score = probabilities ? "probability" : "score"};
    std::size_t skipped = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (wrong[i].empty()) {
        print_prediction(files[i], scores.of(static_cast<long>(i)), style);
      } else {
        print_skipped(files[i], wrong[i], options_.net.format);
        ++skipped;
      }
    }
    print_skipped_total(skipped, files.size(), options_.net.format);
    return kSuccess;
  }

  int write_model() {
    std::error_code ignored;
    if (!options_.force && std::filesystem::exists(options_.out, ignored)) {
      fail("{} exists already; choose another name, or overwrite it with --force", options_.out);
    }
    std::vector<std::vector<NamedTensor>> tensors;
    std::vector<EnsemblePart> parts;
    tensors.reserve(members_.size());
    for (const EnsembleMember& each : members_) {
      expect_scales(each.net);
      if (each.net.input != members_.front().net.input) {
        const FeatureShape& one = members_.front().net.input;
        const FeatureShape& other = each.net.input;
        fail(
            "{} reads images of {}x{}x{} and {} of {}x{}x{} (channels x rows x columns), but a model has one input; "
            "leave one of the two out",
            members_.front().name, one.channels, one.height, one.width, each.name, other.channels, other.height,
            other.width);
      }
      tensors.push_back(tensors_of(each));
      parts.push_back({each.net, tensors.back()});
    }
    write_text(options_.out, ensemble_to_onnx(parts, options_.how));
    if (options_.net.format == "text") {
      fmt::print("{}: {} members as ONNX, opset 13; its input is pixels / 255, and its output is the {}\n",
                 options_.out, members_.size(), combination_text(options_.how));
    } else {
      const nlohmann::ordered_json line{{"event", "export"},
                                        {"file", options_.out},
                                        {"members", options_.members},
                                        {"combination", combination_text(options_.how)}};
      fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    return kSuccess;
  }

 private:
  int count() const { return static_cast<int>(members_.size()); }

  /// The data for members with one input, to which photographs are scaled.
  struct Scaled {
    FeatureShape input;
    int resize = 0;  ///< Net::resize
    DataSet images;
  };

  /// Opens the data for the input of each member.
  void open_images() {
    for (const EnsembleMember& each : members_) {
      if (data_of(each.net) == nullptr) {
        data_.push_back({each.net.input, each.net.resize, load_data(options_.net, options_.net.seed, each.net)});
        for (const std::string& text : data_.back().images.notices) notice(observers_, text);
      }
      require_fits(*data_of(each.net), each.net);
      expect_same_names(each.net.class_names, each.name, data_of(each.net)->class_names, options_.net.data);
    }
  }
  const DataSet* data_of(const Net& net) const {
    const auto found = std::ranges::find_if(
        data_, [&net](const Scaled& each) { return each.input == net.input && each.resize == net.resize; });
    return found == data_.end() ? nullptr : &found->images;
  }

  PassImages images_of_test(const Net& net) const {
    const DataSet& data = *data_of(net);
    const auto open = [&data, &net, seed = options_.net.seed]() -> FillBatch {
      const auto batches =
          std::make_shared<Batches>(data, Part::test, net.training.batch, seed, Augmentation{}, net.scales);
      return [batches](int index, PassBatch& batch) {
        if (batch.images.pixels.size() == 0) batch.images = batches->blank();
        batch.count = batches->fill(0, index, batch.images, batch.labels);
      };
    };
    return {.count = data.test.count(), .open = open, .what = "test image"};
  }

  PassImages images_of_files(const std::vector<std::string>& files, const Net& net) const {
    const auto fill = [&files, &net, corrupt = options_.net.corrupt](int index, PassBatch& batch) {
      const int images = net.training.batch;
      if (batch.images.pixels.size() == 0) {
        batch.images = {Pixels({images, net.input.channels, net.input.height, net.input.width}), net.scales};
      }
      const std::size_t first = static_cast<std::size_t>(index) * static_cast<std::size_t>(images);
      batch.wrong = read_images(files, first, net, corrupt, batch.images.pixels);
      batch.count = static_cast<int>(batch.wrong.size());
    };
    return {.count = static_cast<long>(files.size()), .open = [fill] { return fill; }, .what = "", .files = files};
  }

  /// Computes the members' outputs for their images, and hands them to `done` in the order of the members. Returns
  /// false if it was stopped.
  bool compute(const std::function<PassImages(const EnsembleMember&)>& images_of, const std::string& end,
               const std::function<void(const MemberPass&)>& done) {
    if (options_.in_turn) {
      for (const EnsembleMember& each : members_) {
        MemberPass pass(each, images_of(each));
        if (!run_pass(pass, options_.cluster, options_.net, observers_, stop_, end)) return false;
        done(pass);
      }
      return true;
    }
    std::deque<MemberPass> passes;
    for (const EnsembleMember& each : members_) passes.emplace_back(each, images_of(each));
    return PassesAtOnce(options_.cluster, options_.net, options_.master_jobs, observers_).run(passes, done, stop_);
  }

  /// Adds a member's outputs to the scores of all images that it and the members before could decode. `wrong` has a
  /// message for each of the others.
  static void add(const MemberPass& pass, EnsembleScores& scores, std::vector<std::string>& wrong) {
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      const auto image = static_cast<long>(i);
      if (!pass.wrong(image).empty()) wrong[i] = pass.wrong(image);
      if (wrong[i].empty()) scores.add(image, pass.outputs(image));
    }
  }

  /// The mean loss of the ensemble; nothing where its scores have none.
  std::optional<double> loss_of(const EnsembleScores& scores, const std::vector<std::uint16_t>& labels) const {
    if (options_.how == Combination::votes || !ends_with_softmax(members_.front().net)) return std::nullopt;
    double sum = 0.0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      sum += loss_of_scores(options_.how, scores.of(static_cast<long>(i)), labels[i]);
    }
    return sum / static_cast<double>(labels.size());
  }

  void report(const std::vector<MemberResult>& results, const EnsembleScores& scores,
              const std::vector<std::uint16_t>& labels) {
    Confusion confusion(members_.front().net.classes);
    long correct = 0;
    Tensor row(Shape{1, members_.front().net.classes});
    for (std::size_t i = 0; i < labels.size(); ++i) {
      std::ranges::copy(scores.of(static_cast<long>(i)), row.data());
      confusion.add(row, {labels[i]}, 1);
    }
    for (int c = 0; c < confusion.classes(); ++c) correct += confusion.count(c, c);
    const double accuracy = static_cast<double>(correct) / static_cast<double>(labels.size());
    const std::optional<double> loss = loss_of(scores, labels);
    if (options_.net.format == "json") {
      print_json(results, confusion, accuracy, loss, labels.size());
    } else {
      print_table(results, confusion, accuracy, loss);
    }
  }

  void print_json(const std::vector<MemberResult>& results, const Confusion& confusion, double accuracy,
                  std::optional<double> loss, std::size_t images) const {
    auto members = nlohmann::ordered_json::array();
    for (const MemberResult& each : results) {
      members.push_back({{"member", each.name}, {"loss", each.loss}, {"accuracy", each.accuracy}});
    }
    nlohmann::ordered_json json{{"event", "ensemble"},
                                {"data", options_.net.data},
                                {"images", images},
                                {"combination", combination_text(options_.how)},
                                {"members", members}};
    if (loss) json["loss"] = *loss;
    json["accuracy"] = accuracy;
    json.update(to_json(confusion, names_));
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  void print_table(const std::vector<MemberResult>& results, const Confusion& confusion, double accuracy,
                   std::optional<double> loss) const {
    const std::string title = fmt::format("the ensemble ({})", combination_text(options_.how));
    std::size_t width = title.size();
    for (const MemberResult& each : results) width = std::max(width, each.name.size());
    std::vector<std::string> lines{fmt::format("{:<{}}  accuracy    loss", "member", width)};
    for (const MemberResult& each : results) {
      lines.push_back(fmt::format("{:<{}}  {:>6.2f} %  {:.4f}", each.name, width, 100.0 * each.accuracy, each.loss));
    }
    lines.push_back(fmt::format("{:<{}}  {:>6.2f} %  {}", title, width, 100.0 * accuracy,
                                loss ? fmt::format("{:.4f}", *loss) : "-"));
    const auto best = std::ranges::max_element(results, {}, &MemberResult::accuracy);
    const double points = 100.0 * (accuracy - best->accuracy);
    lines.push_back(fmt::format("the ensemble is {:.2f} points {} than its best member, {}", std::abs(points),
                                points < 0.0 ? "worse" : "better", best->name));
    for (const std::string& line : lines_of(confusion, names_)) lines.push_back(line);
    for (const std::string& line : lines) notice(observers_, line);
  }

  EnsembleOptions options_;
  std::vector<EnsembleMember> members_;
  const std::atomic<bool>& stop_;
  std::vector<std::string> names_;  ///< of the classes; may be empty
  Observers observers_;
  std::deque<Scaled> data_;
};

}  // namespace

int ensemble_command(const EnsembleOptions& options) {
  expect_computing(options.net.device, "ensemble");
  EnsembleCommand command(options);
  if (!options.out.empty()) return command.write_model();
  return options.images.empty() ? command.test() : command.predict();
}

}  // namespace convoy

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
#include "master/cluster/cluster_learner.hpp"
#include "master/commands/ensemble_member.hpp"
#include "master/commands/load_net.hpp"
#include "master/commands/options.hpp"
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

/// The machines and the learner that run a member.
struct RunningMember {
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<ClusterLearner> learner;
};

struct MemberResult {
  std::string name;
  double accuracy = 0.0;
  double loss = 0.0;
};

/// One call of `convoy-master ensemble`. Members run one after another, each on all machines.
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
    notice(observers_, fmt::format("testing {} members, one after another, on the {} test images of {}",
                                   members_.size(), data.test.count(), options_.net.data));
    EnsembleScores scores(options_.how, count(), data.test.count(), members_.front().net.classes);
    std::vector<MemberResult> results;
    for (const EnsembleMember& each : members_) {
      const std::optional<MemberResult> result = test(each, scores);
      if (!result) return kInterrupted;
      results.push_back(*result);
    }
    report(results, scores, data.test.labels);
    return kSuccess;
  }

  int predict() {
    for (const EnsembleMember& each : members_) expect_scales(each.net);
    const std::vector<std::string> files = image_files(options_.images);
    EnsembleScores scores(options_.how, count(), static_cast<long>(files.size()), members_.front().net.classes);
    std::vector<std::string> wrong;
    for (const EnsembleMember& each : members_) {
      if (!predict(each, files, scores, wrong)) return kInterrupted;
    }
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
      fmt::print("{}: {} members as ONNX, opset 13; its input are pixels / 255, and its output is the {}\n",
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

  /// Returns nothing where somebody stops the program while it waits for slaves.
  std::optional<RunningMember> assemble(const EnsembleMember& member) {
    RunningMember running{
        .cluster = Cluster::assemble(options_.cluster, options_.net, member.net, member.cut, observers_, stop_),
        .learner = nullptr};
    if (!running.cluster) return std::nullopt;
    running.learner = std::make_unique<ClusterLearner>(*running.cluster, member.cut, member.net.training.batch);
    running.learner->load({member.weights});
    return running;
  }

  std::optional<MemberResult> test(const EnsembleMember& member, EnsembleScores& scores) {
    const DataSet& data = *data_of(member.net);
    const Batches batches(data, Part::test, member.net.training.batch, options_.net.seed, Augmentation{},
                          member.net.scales);
    std::optional<RunningMember> running = assemble(member);
    if (!running) return std::nullopt;
    long image = 0;
    Evaluation found;
    try {
      found = evaluate(*running->learner, batches, [&](const Evaluation&, const TestedBatch& batch) {
        for (int n = 0; n < batch.count; ++n, ++image) {
          expect_finite_outputs(fmt::format("test image {}", image), batch.outputs.sample(n), member.name + "'s");
          scores.add(image, batch.outputs.sample(n));
        }
        return !stop_;
      });
    } catch (const Diverged& diverged) {
      fail("{}: {}; check that the weights belong to this net", member.name, diverged.what());
    }
    const bool whole = found.images == data.test.count();
    running->cluster->dismiss(whole ? "the member was tested" : "the master was interrupted");
    if (!whole) return std::nullopt;
    notice(observers_,
           fmt::format("{}: accuracy {:.2f} %, loss {:.4f}", member.name, 100.0 * found.accuracy, found.loss));
    return MemberResult{.name = member.name, .accuracy = found.accuracy, .loss = found.loss};
  }

  /// `wrong` has a message for each file that the members before could not decode. Returns false if it was stopped.
  bool predict(const EnsembleMember& member, const std::vector<std::string>& files, EnsembleScores& scores,
               std::vector<std::string>& wrong) {
    std::optional<RunningMember> running = assemble(member);
    if (!running) return false;
    wrong.resize(files.size());
    const Net& net = member.net;
    Images images{Pixels({net.training.batch, net.input.channels, net.input.height, net.input.width}), net.scales};
    for (std::size_t first = 0; first < files.size() && !stop_;) {
      const std::vector<std::string> faults = read_images(files, first, net, options_.net.corrupt, images.pixels);
      const Tensor& outputs = running->learner->outputs(images);
      for (std::size_t n = 0; n < faults.size(); ++n, ++first) {
        if (!faults[n].empty()) wrong[first] = faults[n];
        if (!wrong[first].empty()) continue;
        const auto row = outputs.sample(static_cast<int>(n));
        expect_finite_outputs(files[first], row, member.name + "'s");
        scores.add(static_cast<long>(first), row);
      }
    }
    running->cluster->dismiss(stop_ ? "the master was interrupted" : "all images are classified");
    return !stop_;
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

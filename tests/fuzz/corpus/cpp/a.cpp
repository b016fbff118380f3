namespace ropes {
// A winch.
template <typename T, int N = 3>
class Winch : public Base<T> {
  public:
    explicit Winch(T &&part) noexcept : part_(std::move(part)) {}
    auto pull(int by) const -> std::vector<std::pair<T, int>> { return {{part_, by << N}}; }
  private:
    T part_{};
};
}  // namespace ropes

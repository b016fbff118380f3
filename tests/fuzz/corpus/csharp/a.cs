using System;
namespace Ropes;

/// <summary>A winch.</summary>
[Serializable]
public sealed record Winch<T>(string Name, int Length) : IWinch<T> where T : class
{
    public event Action<T>? Pulled;
    public async Task<List<T>> Pull(int by = 1) => by switch { > 0 and < 9 => await Load($"{Name}: {by}"), _ => new() };
    private int this[int at] { get => Length - at; init { } }
}

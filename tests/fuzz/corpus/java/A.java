package ropes;

import java.util.*;

/** A winch. */
@Deprecated(since = "1")
public final class Winch<T extends Comparable<? super T>> implements Runnable {
    private final Map<String, List<T>> parts = new HashMap<>();
    public record Part(int length) {}
    @Override public void run() { parts.forEach((k, v) -> System.out.println(k + v.size() * (int) 2.5)); }
    int pull(int by) { return by < 0 ? -1 : switch (by) { case 1 -> 2; default -> by >>> 1; }; }
}

<?php

/** Functions for deferring, and those that the classes share. */

declare(strict_types=1);

namespace Deferred;

/**
 * Defer a call in the transaction of an open connection to PostgreSQL. Opens, commits and retries nothing.
 *
 * @param array<string, mixed> $options those of deferred.defer() in SQL
 * @return int the id of the job
 */
function defer(\PDO $connection, string $fn, mixed $params = [], array $options = []): int
{
    $call = 'deferred.defer(cast(? as text), cast(? as json), cast(? as json))';
    return (int) select($connection, $call, [$fn, params($params), $options ? json($options) : null]);
}

/** The milliseconds of a span: seconds as a number, or text such as "200ms", "1.5h" or "2h 30min". */
function milliseconds(string|int|float $span): int
{
    static $units = [
        'ms' => 1, 's' => 1000, 'sec' => 1000, 'm' => 60_000, 'min' => 60_000,
        'h' => 3_600_000, 'd' => 86_400_000, 'w' => 604_800_000,
    ];
    if (!is_string($span) || preg_match('/^\d+(\.\d+)?$/D', $span)) {
        return (int) round((float) $span * 1000);
    }
    $unit = implode('|', array_keys($units));
    if (!preg_match("/^(\d+(\.\d+)? ?($unit)( |$|(?=\d)))+$/D", $span)) {
        $hint = 'write a number and a unit, such as 200ms, 5s, 10min, 2h or 30d';
        throw new \InvalidArgumentException("'$span' is not a span; $hint");
    }
    preg_match_all('/(\d+(?:\.\d+)?) ?([a-z]+)/', $span, $parts, PREG_SET_ORDER);
    return (int) round(array_sum(array_map(fn (array $part) => (float) $part[1] * $units[$part[2]], $parts)));
}

/** JSON with readable characters. 1.0 stays 1.0. */
function json(mixed $value): string
{
    return json_encode(
        $value,
        JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION,
        1 << 20
    );
}

/** JSON of params, in which an empty array is an object. */
function params(mixed $params): string
{
    return $params === [] ? '{}' : json($params);
}

/** The stored form of a returned value: text unchanged, nothing of null, JSON of all others. */
function stored(mixed $value): string
{
    return $value === null ? '' : (is_string($value) ? $value : json($value));
}

/**
 * The only value of a statement.
 *
 * @param list<mixed> $values
 * @internal
 */
function select(\PDO $connection, string $call, array $values): mixed
{
    $statement = $connection->prepare("select $call");
    if (!$statement || !$statement->execute($values)) {  // with PDO::ERRMODE_SILENT
        throw new \PDOException(($statement ?: $connection)->errorInfo()[2] ?? "select $call failed");
    }
    return $statement->fetchColumn();
}

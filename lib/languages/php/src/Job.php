<?php

declare(strict_types=1);

namespace Deferred;

/**
 * The job that a function was called for. It is valid until the function returns.
 *
 * @property-read ?\DateTimeImmutable $created when the job was deferred
 * @property-read ?\DateTimeImmutable $tick when the schedule was due, or null if no schedule made the job
 * @property-read ?\DateTimeImmutable $previous_tick the tick of the schedule's previous job, or null
 * @property-read mixed $params the params, for a function that takes a list of jobs; objects are arrays
 * @property-read array<string, mixed> $parents the jobs that this job waited for:
 *     ['pack' => ['id' => 17, 'outcome' => 'ok', 'result' => 'three boxes']]
 * @property-read array<string, mixed> $steps what this and earlier attempts have saved, by name
 */
final class Job
{
    public const ERROR = 1;
    public const WARNING = 2;
    public const INFO = 3;
    public const DEBUG = 4;

    public readonly int $id;
    public readonly string $fn;
    /** The number of this attempt, from 1. */
    public readonly int $attempt;
    /** '' if there is none. */
    public readonly string $label;
    /** Proves to the database that this attempt holds the job. */
    public readonly int $receipt;
    /** The W3C trace context in which the job was deferred, or ''. */
    public readonly string $traceparent;
    /** @internal */
    public bool $replaced = false;
    /** @internal */
    public bool $gone = false;
    private readonly ?float $end;
    /** @var ?array<string, mixed> */
    private ?array $saved = null;

    /**
     * @param array<string, mixed> $head of the message that started the job
     * @param array<string, string> $settings
     * @internal
     */
    public function __construct(
        private readonly Program $host,
        private readonly array $head,
        private readonly string $parentsJson = '',
        private readonly array $settings = [],
        private readonly string $paramsJson = '{}',
        private readonly string $stepsJson = ''
    ) {
        $this->id = (int) $head['job'];
        $this->fn = $head['fn'];
        $this->attempt = $head['attempt'] ?? 1;
        $this->label = $head['label'] ?? '';
        $this->receipt = (int) ($head['receipt'] ?? 0);
        $this->traceparent = $head['traceparent'] ?? '';
        $this->end = isset($head['timeout_ms']) ? microtime(true) + $head['timeout_ms'] / 1000 : null;
    }

    /** The members that few functions read. */
    public function __get(string $name): mixed
    {
        if ($name === 'parents') {
            return $this->parentsJson === '' ? [] : Program::decode($this->parentsJson, true);
        }
        if ($name === 'params') {
            return $this->decoded(true);
        }
        if ($name === 'steps') {
            return $this->saved ??= $this->stepsJson === '' ? [] : Program::decode($this->stepsJson, true);
        }
        if (!in_array($name, ['created', 'tick', 'previous_tick'], true)) {
            throw new \LogicException("a job has no member '$name'");
        }
        $us = (int) ($this->head["{$name}_us"] ?? 0);
        return $us === 0 ? null : Program::moment($us);
    }

    /** @internal */
    public function decoded(bool $assoc): mixed
    {
        return Program::decode($this->paramsJson, $assoc);
    }

    /** The seconds until the time limit of this attempt, or null without a limit. */
    public function left(): ?float
    {
        return $this->end === null ? null : max($this->end - microtime(true), 0.0);
    }

    /** True if the function should end soon, because the worker stops or the job was cancelled. */
    public function stop_asked(): bool
    {
        return $this->host->stopAsked($this);
    }

    /** The text of a setting of this program, or null. */
    public function setting(string $name): ?string
    {
        return $this->settings[$name] ?? null;
    }

    /** Report how far the job is; -1 is unknown. At most 200 bytes of the text are kept. */
    public function progress(int $done, int $total = -1, string $text = ''): void
    {
        $short = preg_replace('/[\xc2-\xf4][\x80-\xbf]{0,2}$/D', '', substr($text, 0, 200));
        $text = strlen($text) > 200 ? $short : $text;
        $this->host->send($this, 'progress', ['done' => $done, 'total' => $total, 'text' => $text]);
    }

    /** Write to the worker's log, for example with level Job::WARNING. */
    public function log(string $text, int $level = self::INFO): void
    {
        $this->host->send($this, 'log', ['level' => $level], substr($text, 0, Program::TEXT_MAX));
    }

    /**
     * Defer a call in the statement that records the success of this attempt.
     *
     * @param array<string, mixed> $options those of deferred.defer() in SQL
     */
    public function defer(string $fn, mixed $params = [], array $options = []): void
    {
        $text = params($params);
        $body = $text . ($options ? json($options) : '');
        $this->host->send($this, 'defer', ['fn' => $fn, 'params' => strlen($text)], $body);
    }

    /**
     * Call the function once in the life of the job, save its value as JSON, and return the saved value. A later
     * attempt returns the saved value without a call.
     */
    public function step(string $name, callable $run): mixed
    {
        return array_key_exists($name, $this->steps) ? $this->steps[$name] : $this->save_step($name, $run());
    }

    /**
     * Save a value under a name, in place of an earlier one. Returns when the database has it. If another attempt may
     * run, this throws Stop, or Gone in a function that takes a list of Jobs.
     */
    public function save_step(string $name, mixed $value): mixed
    {
        $text = json($value);
        $outcome = $this->host->saveStep($this, $name, $text);
        if ($outcome === 'gone') {
            $this->gone = true;
            $why = "step '$name' was not saved, since another attempt may run";
            throw Program::takesBatch($this->fn) ? new Gone($why) : new Stop($why);
        }
        if ($outcome !== 'saved') {
            $why = [
                'invalid' => 'a name follows the rule for function names, and a value has at most 64 KiB',
                'full' => 'a job has at most 1,000 steps of together 1 MiB',
                'refused' => 'the log of the worker says why',
            ][$outcome] ?? $outcome;
            throw new \RuntimeException("step '$name' was not saved: $why");
        }
        $value = Program::decode($text, true);
        $this->saved = [$name => $value] + $this->steps;
        return $value;
    }

    /** Ask the worker to replace this process after the job. */
    public function last(): void
    {
        $this->replaced = true;
    }

    /** Record the success of this attempt in the transaction of the caller. The function's return value is ignored. */
    public function finish(\PDO $connection, mixed $result = null): void
    {
        $text = $result === null ? null : stored($result);
        $call = 'deferred.finish(cast(? as bigint), cast(? as bigint), cast(? as text))';
        select($connection, $call, [$this->id, $this->receipt, $text]);
    }

    /** Let the lease of the job last at least this span from now. Returns its end. */
    public function extend(\PDO $connection, string|int|float $span): \DateTimeImmutable
    {
        $call = 'extract(epoch from deferred.extend(cast(? as bigint), cast(? as bigint), cast(? as bigint)))';
        $end = select($connection, $call, [$this->id, $this->receipt, milliseconds($span)]);
        return Program::moment((int) round((float) $end * 1e6));
    }
}

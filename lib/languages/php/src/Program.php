<?php

declare(strict_types=1);

namespace Deferred;

/**
 * The functions of a program, and the conversation with the worker, which writes to descriptor 3 and reads from 4.
 *
 *     Program::define('resize', fn (array $params, Job $job) => ['width' => 640], timeout: '10s');
 *     Program::run();
 *
 * See deferred_program(7).
 */
class Program
{
    /** Bytes of a result, an error or a log line that are kept. */
    public const TEXT_MAX = 8192;

    /** @var array<string, array{run: callable, assoc: bool, limits: array<string, ?int>}> */
    protected static array $functions = [];
    /** @var list<callable> */
    private static array $before = [];
    /** @var list<callable> */
    private static array $after = [];

    /** @var array<string, string> */
    private array $settings = [];
    /** @var list<Job> */
    private array $jobs = [];
    private bool $stopping = false;
    /** @var array<int|string, true> the ids of jobs that should end */
    private array $stopped = [];
    private bool $saves = false;
    /** The id of the job that waits for the answer to a step. */
    private ?string $asked = null;
    private string $answer = '';
    /** SIGTERM throws Stop while this is true, but not while the program writes or reads a message. */
    private bool $armed = false;
    private bool $busy = false;
    private bool $pending = false;
    private int $pid;

    /**
     * @param resource $in
     * @param resource $out
     */
    private function __construct(private $in, private $out)
    {
        $this->pid = getmypid();
    }

    /**
     * Offer a function of params and a Job. Objects in params are arrays, or stdClass if the first parameter
     * of the function has a type that includes object. With $progress_resets, an attempt that saved a step of a
     * new name does not count against $max_attempts.
     *
     * With $batch, it is a function of a list of Jobs, up to that number. They wait up to $batch_wait for each other.
     * It returns null, or a list with an entry for each Job. An entry is the result, or a Throwable as the outcome.
     */
    public static function define(
        string $name,
        callable $run,
        string|int|float|null $timeout = null,
        ?int $max_attempts = null,
        ?int $batch = null,
        string|int|float|null $batch_wait = null,
        bool $progress_resets = false
    ): void {
        if (isset(self::$functions[$name])) {
            throw new \LogicException("function '$name' is defined twice");
        }
        $first = (new \ReflectionFunction(\Closure::fromCallable($run)))->getParameters()[0] ?? null;
        self::$functions[$name] = [
            'run' => $run,
            'assoc' => !preg_match('/\b(object|stdClass)\b/', (string) $first?->getType()),
            'limits' => [
                'timeout_ms' => $timeout === null ? null : milliseconds($timeout),
                'max_attempts' => $max_attempts,
                'batch' => $batch,
                'batch_wait_ms' => $batch_wait === null ? null : milliseconds($batch_wait),
                'progress_resets' => $progress_resets ? 1 : null,
            ],
        ];
    }

    /** @internal */
    public static function takesBatch(string $fn): bool
    {
        return isset(self::$functions[$fn]['limits']['batch']);
    }

    /** Call this with each Job before its function. An exception ends the attempt like the function's. */
    public static function beforeJob(callable $hook): void
    {
        self::$before[] = $hook;
    }

    /** Call this with each Job after its function. An exception is only logged. */
    public static function afterJob(callable $hook): void
    {
        self::$after[] = $hook;
    }

    /** Serve the worker and exit at its end. Returns at once in a process that was not started by a worker. */
    public static function run(string $version = ''): void
    {
        if (getenv('DEFERRED_PROGRAM') === false) {
            return;
        }
        putenv('DEFERRED_PROGRAM');  // children do not inherit it
        unset($_ENV['DEFERRED_PROGRAM'], $_SERVER['DEFERRED_PROGRAM']);
        ini_set('display_errors', 'stderr');
        $program = new self(fopen('php://fd/3', 'rb'), fopen('php://fd/4', 'wb'));
        stream_set_chunk_size($program->in, 1 << 16);
        stream_set_write_buffer($program->out, 0);
        if (function_exists('pcntl_async_signals')) {
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, $program->terminate(...), false);
        }
        foreach (self::$functions as $name => $function) {
            $program->send(null, 'function', ['name' => (string) $name] + $function['limits']);
        }
        $program->send(null, 'ready', ['protocol' => 1, 'version' => $version]);
        while ([$head, $body] = $program->message()) {
            if ($head['type'] === 'call') {
                $program->call($head, $body);
            } elseif ($head['type'] === 'setting') {
                $program->settings[$head['name']] = $head['value'];
            }
        }
        exit(0);
    }

    /**
     * Execute a job, or the jobs of a batch, with hooks. Returns for each the outcome, what is stored, the delay in
     * ms, and the exception.
     *
     * @param non-empty-list<Job> $jobs
     * @return list<array{string, string, ?int, ?\Throwable}>
     */
    protected function attempts(array $jobs): array
    {
        try {
            try {
                $this->armed = true;
                $ends = self::execute($jobs);
            } finally {
                $this->armed = false;  // SIGTERM before this line throws Stop here
            }
        } catch (\Throwable $error) {
            $other = $error instanceof Gone ? new Snooze(0, 'another job of the batch is gone') : $error;
            $ends = array_map(fn (Job $job): \Throwable => $job->gone ? $error : $other, $jobs);
        }
        foreach ($jobs as $job) {
            foreach (self::$after as $hook) {
                try {
                    $hook($job);
                } catch (\Throwable $failure) {
                    $job->log("after_job: $failure", Job::ERROR);
                }
            }
        }
        return array_map(fn (string|\Throwable $end): array => match (true) {
            is_string($end) => ['ok', $end, null, null],
            $end instanceof Verdict => [$end::OUTCOME, $end->getMessage(), $end->afterMs, $end],
            default => ['failed', (string) $end, null, $end],
        }, $ends);
    }

    /**
     * Returns the end of each job: what is stored, or the exception that ended it.
     *
     * @param non-empty-list<Job> $jobs
     * @return list<string|\Throwable>
     */
    private static function execute(array $jobs): array
    {
        $fn = $jobs[0]->fn;
        $function = self::$functions[$fn] ?? throw new Unready("the program has no function '$fn'");
        foreach ($jobs as $job) {
            foreach (self::$before as $hook) {
                $hook($job);
            }
        }
        if ($function['limits']['batch'] === null) {
            return [stored($function['run']($jobs[0]->decoded($function['assoc']), $jobs[0]))];
        }
        $entries = $function['run']($jobs) ?? array_fill(0, count($jobs), null);
        if (!is_array($entries) || count($entries) !== count($jobs)) {
            $n = is_array($entries) ? count($entries) . ' outcomes' : 'no list';
            throw new \LengthException("function '$fn' returned $n for " . count($jobs) . ' jobs');
        }
        return array_map(self::entryEnd(...), array_values($entries));
    }

    /** The end of a job by its entry in a list. */
    private static function entryEnd(mixed $entry): string|\Throwable
    {
        try {
            return $entry instanceof \Throwable ? $entry : stored($entry);
        } catch (Stop $stop) {
            throw $stop;
        } catch (\Throwable $error) {
            return $error;
        }
    }

    /** Half of a pair of surrogates has no form in UTF-8, and becomes U+FFFD. @internal */
    public static function decode(string $json, bool $assoc): mixed
    {
        $value = json_decode($json, $assoc, 1 << 20);
        if (json_last_error() === JSON_ERROR_UTF16) {
            $pair = '\\\\u[dD][89abAB]\w\w\\\\u[dD][c-fC-F]\w\w';
            $json = preg_replace("/(?:\\\\\\\\|$pair)(*SKIP)(*F)|\\\\u[dD][89a-fA-F]\w\w/", '\ufffd', $json);
            $value = json_decode($json, $assoc, 1 << 20);
        }
        if (json_last_error() !== JSON_ERROR_NONE) {
            throw new \JsonException('params: ' . json_last_error_msg());
        }
        return $value;
    }

    /** @internal */
    public static function moment(int $us): \DateTimeImmutable
    {
        $text = sprintf('%d.%06d', intdiv($us, 1_000_000), $us % 1_000_000);
        return \DateTimeImmutable::createFromFormat('U.u', $text);
    }

    /**
     * The head and the body of the next message, or null at the end of file.
     *
     * @return ?array{array<string, mixed>, string}
     */
    private function message(): ?array
    {
        do {
            $line = fgets($this->in);
        } while ($line === false && !feof($this->in));  // a signal arrived
        if ($line === false) {
            return null;
        }
        [$head, $body] = [json_decode($line, true, 4, JSON_THROW_ON_ERROR), ''];
        while (($rest = ($head['bytes'] ?? 0) - strlen($body)) > 0) {
            $body .= $rest > 1 << 16 ? stream_get_contents($this->in, $rest) : fread($this->in, $rest);
            if (feof($this->in)) {
                return null;
            }
        }
        return [$head, $body];
    }

    /** Execute one job, or a batch when all of its calls have come, and report the outcomes. */
    private function call(array $head, string $body): void
    {
        [$params, $parents] = [$head['params'], $head['parents'] ?? 0];
        $this->jobs[] = new Job(
            $this,
            $head,
            substr($body, $params, $parents),
            $this->settings,
            substr($body, 0, $params),
            substr($body, $params + $parents, $head['steps'] ?? 0)
        );
        if (($head['more'] ?? 0) > 0) {
            return;
        }
        $this->stopping = false;
        $this->saves = isset($head['steps']);
        $this->asked = null;
        $this->stopped = [];
        $levels = ob_get_level();
        $ends = $this->attempts($this->jobs);
        while (ob_get_level() > $levels) {
            ob_end_flush();
        }
        flush();
        foreach ($ends as $end) {
            $this->done($this->jobs[0], ...$end);
            array_shift($this->jobs);
        }
    }

    private function done(Job $job, string $outcome, string $text, ?int $after, ?\Throwable $error): void
    {
        [$size, $max, $half] = [strlen($text), self::TEXT_MAX, intdiv(self::TEXT_MAX, 2) - 3];
        if ($size > $max && $error) {
            $text = substr($text, 0, $half) . "\n...\n" . substr($text, -$half);
        } elseif ($size > $max) {
            $job->log("the result has $size bytes; the first $max are kept", Job::WARNING);
        }
        $members = ['outcome' => $outcome, 'after_ms' => $after, 'last' => $job->replaced ? 1 : null];
        $this->send($job, 'done', $members, substr($text, 0, $max));
    }

    /** The handler of SIGTERM. The signal does not name a job, so it is ignored between jobs. */
    private function terminate(): void
    {
        $this->pending = $this->armed && $this->busy;
        if ($this->armed && !$this->busy) {
            $this->armed = false;
            $this->stopping = true;
            throw new Stop('the job was stopped by SIGTERM');
        }
    }

    private function release(): void
    {
        $this->busy = false;
        if ($this->pending) {
            $this->terminate();
        }
    }

    /**
     * Write a message about a job, or about none before the first. Members that are null are left out.
     *
     * @param array<string, mixed> $head
     * @internal
     */
    public function send(?Job $job, string $type, array $head, string $body = ''): void
    {
        if ($job !== null && !in_array($job, $this->jobs, true)) {
            throw new \LogicException("job $job->id has ended");
        }
        if (getmypid() !== $this->pid) {
            throw new \LogicException('a forked child cannot send messages');
        }
        $head = ['type' => $type, 'job' => $job ? (string) $job->id : null] + $head + ['bytes' => strlen($body)];
        $head = array_filter($head, 'is_scalar');
        $data = json_encode($head, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE) . "\n" . $body;
        $this->busy = true;
        if ($type === 'step') {
            $this->asked = (string) $job->id;
        }
        while ($data !== '') {
            $written = fwrite($this->out, $data);
            if ($written === false) {
                exit(1);  // the runner has ended
            }
            $data = substr($data, $written);
        }
        $this->release();
    }

    /** Take a message about a job. False: none came in time, or none can come. */
    private function listen(?int $seconds): bool
    {
        $ready = [$this->in];
        $none = null;
        if (!@stream_select($ready, $none, $none, $seconds)) {
            return false;
        }
        $this->busy = true;
        $head = $this->message()[0] ?? null;
        $job = $head['job'] ?? '';
        if ($head !== null && $head['type'] === 'stop') {
            $this->stopped[$job] = true;
        } elseif ($head !== null && $head['type'] === 'stepped' && $job === $this->asked) {
            $this->asked = null;
            $this->answer = $head['outcome'];
        }
        $this->release();
        return $head !== null;
    }

    /** @internal */
    public function stopAsked(Job $job): bool
    {
        while (!$this->stopping && !isset($this->stopped[$job->id]) && in_array($job, $this->jobs, true)) {
            if (!$this->listen(0)) {
                break;
            }
        }
        return $this->stopping || isset($this->stopped[$job->id]);
    }

    /** Returns the outcome when the step is stored. @internal */
    public function saveStep(Job $job, string $name, string $value): string
    {
        if (!$this->saves) {
            throw new \RuntimeException('the worker is older than 0.2.0 and saves no steps');
        }
        $this->awaitAnswer();  // to a step whose wait SIGTERM has ended
        $this->send($job, 'step', ['name' => $name], $value);
        $this->awaitAnswer();
        return $this->answer;
    }

    private function awaitAnswer(): void
    {
        while ($this->asked !== null) {
            if (!$this->listen(null) && feof($this->in)) {
                throw new \RuntimeException('the runner has ended');
            }
        }
    }
}

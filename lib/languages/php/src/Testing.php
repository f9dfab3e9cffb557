<?php

declare(strict_types=1);

namespace Deferred;

/**
 * Calls a function in a test, without a worker and without a database:
 *
 *     $done = Testing::call('resize', ['owner' => 'ann@example.org'], attempt: 2);
 *     $this->assertSame('ok', $done->outcome);
 *     $this->assertSame('send_mail', $done->deferred[0]['fn']);
 */
final class Testing extends Program
{
    public string $outcome = 'ok';
    /** The text that a worker would store: the result, or the error if the outcome is not ok. */
    public string $text = '';
    /** The value of a result that was stored as JSON. */
    public mixed $data = null;
    public ?\Throwable $exception = null;
    public ?int $after_ms = null;
    public bool $last = false;
    /** @var list<array{fn: string, params: mixed, options: array<string, mixed>}> what Job::defer() got */
    public array $deferred = [];
    /** @var list<string> */
    public array $logged = [];
    /** @var list<array{done: int, total: int, text: string}> */
    public array $progress = [];
    /** @var array<string, mixed> what Job::step() and Job::save_step() saved */
    public array $steps = [];

    private function __construct(private bool $stop)
    {
    }

    /**
     * Calls a function with its hooks. Params and result pass through JSON, as with a worker.
     *
     * @param array<string, string> $settings
     * @param array<string, mixed> $parents
     * @param array<string, mixed> $steps what earlier attempts have saved
     * @param string|int|float|null $timeout default: that of the function; visible to the function, not enforced
     * @param bool $stop what Job::stop_asked() returns
     * @param mixed ...$members of the job as in the protocol: attempt, label, receipt, created_us, tick_us, job ...
     */
    public static function call(
        string $fn,
        mixed $params = [],
        array $settings = [],
        array $parents = [],
        string|int|float|null $timeout = null,
        bool $stop = false,
        array $steps = [],
        mixed ...$members
    ): self {
        return self::callMany($fn, [$params], $settings, $parents, $timeout, $stop, $steps, ...$members)[0];
    }

    /**
     * Calls a function that takes a list of jobs, with the params of each. Their ids follow each other.
     *
     * @param list<mixed> $params
     * @param array<string, string> $settings
     * @param array<string, mixed> $parents
     * @param array<string, mixed> $steps
     * @return list<self>
     */
    public static function callMany(
        string $fn,
        array $params,
        array $settings = [],
        array $parents = [],
        string|int|float|null $timeout = null,
        bool $stop = false,
        array $steps = [],
        mixed ...$members
    ): array {
        $limit = $timeout === null ? self::$functions[$fn]['limits']['timeout_ms'] ?? null : milliseconds($timeout);
        $now = (int) (microtime(true) * 1e6);
        $head = $members + ['job' => 1, 'fn' => $fn, 'created_us' => $now, 'timeout_ms' => $limit];
        $dones = $jobs = [];
        foreach ($params as $i => $one) {
            $dones[] = $done = new self($stop);
            $own = ['job' => $head['job'] + $i] + $head;
            $behind = array_map(fn (array $members): string => $members ? json($members) : '', [$parents, $steps]);
            $jobs[] = new Job($done, $own, $behind[0], $settings, params($one), $behind[1]);
        }
        foreach ($dones[0]->attempts($jobs) as $i => $end) {
            $done = $dones[$i];
            [$done->outcome, $done->text, $done->after_ms, $done->exception] = $end;
            $done->data = $done->exception ? null : json_decode($done->text, true);
            $done->last = $jobs[$i]->replaced;
        }
        return $dones;
    }

    /** @internal */
    public function send(?Job $job, string $type, array $head, string $body = ''): void
    {
        if ($type === 'log') {
            $this->logged[] = $body;
        } elseif ($type === 'progress') {
            $this->progress[] = $head;
        } else {
            $this->deferred[] = [
                'fn' => $head['fn'],
                'params' => json_decode(substr($body, 0, $head['params']), true),
                'options' => json_decode(substr($body, $head['params']) ?: '{}', true),
            ];
        }
    }

    /** @internal */
    public function saveStep(Job $job, string $name, string $value): string
    {
        $this->steps[$name] = json_decode($value, true);
        return 'saved';
    }

    /** @internal */
    public function stopAsked(Job $job): bool
    {
        return $this->stop;
    }
}

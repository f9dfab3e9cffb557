<?php

/** The functions that tests/programs/README.md lists. */

declare(strict_types=1);

use Deferred\{Cancel, Dead, Gone, Job, Later, Program, Snooze, Stop, Unready};

require __DIR__ . '/../../../lib/languages/php/src/autoload.php';

if (getenv('NOISE') !== false) {
    echo "text before the first message\n";
}

$hooks = ['before' => 0, 'after' => 0];
Program::beforeJob(function (Job $job) use (&$hooks) {
    $hooks['before']++;
});
Program::afterJob(function (Job $job) use (&$hooks) {
    $hooks['after']++;
});

function seconds(?DateTimeImmutable $moment): ?int
{
    return $moment?->getTimestamp();
}

function nap(int $ms): void
{
    $end = microtime(true) + $ms / 1000;
    while (($left = $end - microtime(true)) > 0) {
        usleep((int) ($left * 1e6));
    }
}

$functions = [
    'echo' => fn (object|array|string|int|float|bool|null $params) => $params,
    'fail' => fn (array $params) => throw new RuntimeException($params['error']),
    'snooze' => fn (array $params) => throw new Snooze($params['span']),
    'dead' => fn (array $params) => throw new Dead($params['error']),
    'cancel' => fn (array $params) => throw new Cancel($params['error']),
    'unready' => fn (array $params) => throw new Unready($params['error']),
    'nothing' => fn () => null,
    'text' => fn (array $params) => $params['text'],
    'bytes' => fn () => "a\xffb",
    'big' => fn (array $params) => str_repeat('x', $params['bytes']),
    'strange' => fn () => fopen('php://memory', 'r'),
    'length' => fn (array $params) => ['characters' => mb_strlen($params['text'], 'UTF-8')],
    'members' => fn (array $params, Job $job) => [
        'id' => (string) $job->id,
        'fn' => $job->fn,
        'attempt' => (string) $job->attempt,
        'label' => $job->label,
        'receipt' => (string) $job->receipt,
        'traceparent' => $job->traceparent,
        'created' => seconds($job->created),
        'tick' => seconds($job->tick),
        'previous_tick' => seconds($job->previous_tick),
    ],
    'left' => fn (array $params, Job $job) => [
        'ms' => $job->left() === null ? null : (int) ($job->left() * 1000),
    ],
    'parents' => fn (array $params, Job $job) => (object) $job->parents,
    'progress' => fn (array $params, Job $job) => $job->progress($params['done'], $params['total'], $params['text']),
    'log' => fn (array $params, Job $job) => $job->log($params['text'], $params['level']),
    'defer' => fn (object $params, Job $job) => $job->defer(
        $params->fn,
        $params->params,
        (array) ($params->options ?? [])
    ),
    'step' => function (array $params, Job $job): array {
        $ran = 0;
        $value = $job->step($params['name'], function () use ($params, &$ran): mixed {
            $ran++;
            return $params['value'];
        });
        return ['value' => $value, 'ran' => $ran, 'steps' => (object) $job->steps];
    },
    'save' => function (array $params, Job $job): object {
        foreach ($params['values'] as $value) {
            $job->save_step($params['name'], $value);
        }
        return (object) $job->steps;
    },
    'setting' => fn (array $params, Job $job) => ['value' => $job->setting($params['name'])],
    'print' => function (array $params): void {
        echo $params['text'];
        fwrite(STDERR, $params['error']);
    },
    'stop_asked' => function (array $params, Job $job): string {
        while (!$job->stop_asked()) {
            usleep(10_000);
        }
        return 'asked';
    },
    'sleep' => function (array $params, Job $job): string {
        try {
            $job->progress(0, 1, 'begun');
            nap($params['ms']);
        } catch (Stop) {
            return 'stopped';
        }
        return 'slept';
    },
    'stopped' => function (array $params): string {
        nap($params['ms']);
        return 'slept';
    },
    'last' => function (array $params, Job $job): string {
        $job->last();
        return 'last';
    },
    'children' => fn () => (string) shell_exec('readlink /proc/self/fd/3 /proc/self/fd/4'),
    'left_behind' => fn () => trim((string) shell_exec('sleep 60 >/dev/null 2>&1 & echo $!')),
    'hooks' => function () use (&$hooks): array {
        return $hooks;
    },
    'at_exit' => function (array $params): void {
        register_shutdown_function(fn () => file_put_contents($params['path'], 'bye'));
    },
];
foreach ($functions as $name => $run) {
    Program::define($name, $run, timeout: '10s', max_attempts: 5);
}
Program::define('later', fn (array $params) => throw new Later($params['span']), '1500ms', 7);

function entry(Job $job): mixed
{
    $params = $job->params;
    if ($params['do'] === 'progress') {
        $job->progress(1, 2, $params['text']);
    }
    while ($params['do'] === 'stop_asked' && !$job->stop_asked()) {
        usleep(10000);
    }
    if (in_array($params['do'], ['step', 'try'], true)) {
        try {
            return [$job->step('one', fn (): mixed => $params['value'])];
        } catch (Gone $gone) {
            return $params['do'] === 'try' ? $gone : throw $gone;
        }
    }
    return match ($params['do']) {
        'text' => $params['text'],
        'params' => $params,
        'dead' => new Dead($params['error']),
        'snooze' => new Snooze($params['span']),
        'fail' => new RuntimeException($params['error']),
        'strange' => fopen('php://memory', 'r'),
        'stop_asked' => 'asked',
        default => null,
    };
}

Program::define('many', function (array $jobs): ?array {
    $words = array_column(array_map(fn (Job $job) => $job->params, $jobs), null, 'do');
    if (isset($words['raise'])) {
        throw new RuntimeException($words['raise']['error']);
    }
    if (isset($words['null'])) {
        return null;
    }
    return [...array_map(entry(...), $jobs), ...(isset($words['long']) ? ['too many'] : [])];
}, timeout: '10s', max_attempts: 5, batch: 3, batch_wait: '200ms');
Program::run('1.2-test');

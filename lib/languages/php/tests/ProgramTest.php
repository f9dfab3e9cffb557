<?php

/** Tests of the library without a worker: `phpunit lib/languages/php/tests`. */

declare(strict_types=1);

use Deferred\{Cancel, Dead, Job, Later, Program, Snooze, Stop, Testing, Unready};
use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/../src/autoload.php';

/** PHPUnit 9 finds the rows of a test by its comment, PHPUnit 12 by its attribute. */
final class ProgramTest extends TestCase
{
    private static int $defined = 0;

    /** Defines a function under a name of its own. */
    private static function define(callable $run, mixed ...$limits): string
    {
        $name = 'f' . ++self::$defined;
        Program::define($name, $run, ...$limits);
        return $name;
    }

    /** @return list<array{string|int|float, int}> */
    public static function spans(): array
    {
        return [
            ['200ms', 200], ['1.5s', 1500], ['10min', 600_000], ['2h 30m', 9_000_000], ['1h30min', 5_400_000],
            ['30 d', 2_592_000_000], ['1w', 604_800_000], ['2', 2000], [2, 2000], [0.25, 250],
        ];
    }

    /** @dataProvider spans */
    #[DataProvider('spans')]
    public function testSpans(string|int|float $span, int $ms): void
    {
        $this->assertSame($ms, Deferred\milliseconds($span));
    }

    /** @return list<array{string}> */
    public static function otherTexts(): array
    {
        return [[''], ['soon'], ['5 parsecs'], ['-1s'], ['1s,'], ['s'], ['1 s 2'], ["1s\n"]];
    }

    /** @dataProvider otherTexts */
    #[DataProvider('otherTexts')]
    public function testTextsThatAreNotSpans(string $span): void
    {
        $this->expectExceptionMessage('is not a span');
        Deferred\milliseconds($span);
    }

    public function testANameIsDefinedOnce(): void
    {
        $name = self::define(fn () => null);
        $this->expectExceptionMessage("function '$name' is defined twice");
        Program::define($name, fn () => null);
    }

    public function testCallReportsAllThatAWorkerWouldGet(): void
    {
        $fn = self::define(function (array $params, Job $job): array {
            $job->progress(1, 2, 'half');
            $job->log('working', Job::WARNING);
            $job->defer('send_mail', ['to' => $params['owner']], ['queue' => 'mail']);
            $job->last();
            return ['attempt' => $job->attempt, 'label' => $job->label, 'api' => $job->setting('api'),
                'left' => $job->left() > 9 && $job->left() <= 10];
        }, timeout: '10s');
        $done = Testing::call($fn, ['owner' => 'ann'], settings: ['api' => 'x'], attempt: 2, label: 'L');
        $this->assertSame('ok', $done->outcome, $done->text);
        $this->assertSame(['attempt' => 2, 'label' => 'L', 'api' => 'x', 'left' => true], $done->data);
        $mail = ['fn' => 'send_mail', 'params' => ['to' => 'ann'], 'options' => ['queue' => 'mail']];
        $this->assertSame([$mail], $done->deferred);
        $this->assertSame(['working'], $done->logged);
        $this->assertSame([['done' => 1, 'total' => 2, 'text' => 'half']], $done->progress);
        $this->assertTrue($done->last);
    }

    public function testParamsAreObjectsIfTheFunctionSaysSo(): void
    {
        $arrays = self::define(fn (array $params) => get_debug_type($params['a']));
        $objects = self::define(fn (stdClass $params) => get_debug_type($params->a));
        $this->assertSame('array', Testing::call($arrays, ['a' => ['b' => 1]])->text);
        $this->assertSame('stdClass', Testing::call($objects, ['a' => ['b' => 1]])->text);
    }

    public function testStoredValues(): void
    {
        $this->assertSame('', Deferred\stored(null));
        $this->assertSame("\xff", Deferred\stored("\xff"));
        $this->assertSame('{"ä":1.0}', Deferred\stored(['ä' => 1.0]));
        $this->assertSame('0', Deferred\stored(0));
        $this->assertSame('{}', Deferred\params([]));
        $fn = self::define(fn () => ['x' => INF]);
        $this->assertSame('failed', Testing::call($fn)->outcome);
    }

    public function testHalfOfAPairOfSurrogatesIsReplaced(): void
    {
        $json = '{"a": "\ud800 \\\\\\\\ud800 \ud83d\ude00"}';
        $this->assertSame("\u{fffd} \\\\ud800 \u{1f600}", Program::decode($json, true)['a']);
    }

    /** @return list<array{Throwable, string, ?int, string}> */
    public static function verdicts(): array
    {
        return [
            [new Later('30s'), 'later', 30_000, ''],
            [new Later(error: 'busy'), 'later', null, 'busy'],
            [new Snooze(5, 'night'), 'snooze', 5000, 'night'],
            [new Dead('no such owner'), 'dead', null, 'no such owner'],
            [new Cancel('sold'), 'cancel', null, 'sold'],
            [new Unready('no key'), 'unready', null, 'no key'],
            [new Stop('time'), 'failed', null, 'Deferred\Stop: time in '],
            [new RuntimeException('disk full'), 'failed', null, 'RuntimeException: disk full in '],
        ];
    }

    /** @dataProvider verdicts */
    #[DataProvider('verdicts')]
    public function testVerdicts(Throwable $verdict, string $outcome, ?int $after, string $text): void
    {
        $done = Testing::call(self::define(fn () => throw $verdict));
        $this->assertSame([$outcome, $after, $verdict], [$done->outcome, $done->after_ms, $done->exception]);
        $this->assertTrue(str_starts_with($done->text, $text), $done->text);
    }

    public function testAFunctionThatIsNotThere(): void
    {
        $this->assertSame('unready', Testing::call('absent')->outcome);
    }

    public function testParentsAndTimes(): void
    {
        $fn = self::define(fn (array $params, Job $job) => [
            $job->parents['pack']['result'], $job->tick->format('c u'), $job->previous_tick, $job->stop_asked(),
        ]);
        $parents = ['pack' => ['result' => 'boxes']];
        $done = Testing::call($fn, parents: $parents, stop: true, tick_us: 1_700_000_000_000_005);
        $this->assertSame(['boxes', '2023-11-14T22:13:20+00:00 000005', null, true], $done->data);
    }

    public function testAStepRunsOnceAndHasTheSavedValue(): void
    {
        $charged = 0;
        $fn = self::define(function (array $params, Job $job) use (&$charged): array {
            $charge = function () use (&$charged): array {
                return ['receipt' => 4711, 'times' => ++$charged];
            };
            $job->step('charge', $charge);
            $job->save_step('page', ($job->steps['page'] ?? 0) + 1);
            return [$job->step('charge', $charge), $job->step('old', $charge), $job->steps['page']];
        });
        $done = Testing::call($fn, steps: ['old' => null, 'page' => 7]);
        $this->assertSame([['receipt' => 4711, 'times' => 1], null, 8], $done->data, $done->text);
        $this->assertSame(['charge' => ['receipt' => 4711, 'times' => 1], 'page' => 8], $done->steps);
    }

    public function testProgressIsCutBetweenCharacters(): void
    {
        $fn = self::define(fn (array $params, Job $job) => $job->progress(1, 2, str_repeat('x', 199) . 'é'));
        $this->assertSame(str_repeat('x', 199), Testing::call($fn)->progress[0]['text']);
    }

    public function testHooksSurroundEachFunction(): void
    {
        $seen = [];
        Program::beforeJob(function (Job $job) use (&$seen): void {
            $seen[] = 'before';
        });
        Program::afterJob(function (Job $job) use (&$seen): void {
            $seen[] = 'after';
        });
        Program::afterJob(fn (Job $job) => throw new RuntimeException('disk full'));
        $done = Testing::call(self::define(function () use (&$seen): void {
            $seen[] = 'work';
        }));
        $this->assertSame([['before', 'work', 'after'], 'ok'], [$seen, $done->outcome]);
        $this->assertStringStartsWith('after_job: RuntimeException: disk full', $done->logged[0]);
    }

    public function testAFunctionOfAListOfJobsIsCalledWithTheParamsOfEach(): void
    {
        $insert = self::define(fn (array $jobs) => array_map(
            fn (Job $job) => isset($job->params['wrong']) ? new Dead("no $job->id") : ['id' => $job->id],
            $jobs
        ), batch: 3, batch_wait: '500ms');
        [$good, $bad] = Testing::callMany($insert, [[], ['wrong' => true]], job: 7);
        $this->assertSame(['ok', ['id' => 7]], [$good->outcome, $good->data]);
        $this->assertSame(['dead', 'no 8'], [$bad->outcome, $bad->text]);
        $this->assertSame('dead', Testing::call($insert, ['wrong' => true])->outcome);
    }

    public function testRunReturnsAtOnceWithoutAWorker(): void
    {
        Program::run();
        $this->assertTrue(true);
    }
}

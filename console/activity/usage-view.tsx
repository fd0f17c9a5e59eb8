/** Shows what an installation spent through `host.llm`, by model and by day. */
import { Group, Skeleton, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { useReadError } from '../rest/use-read-error.ts';
import { DataTable } from '../shell/data-table.tsx';
import { DescriptionList } from '../shell/description-list.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { Section } from '../shell/section.tsx';
import { formatNumber, NUMBER_LANGUAGE } from '../style/format-number.ts';
import { IconSparkles } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';

type Spent = components['schemas']['Usage']['total'];
/** A call can cost a fraction of a cent. */
const COST = new Intl.NumberFormat(NUMBER_LANGUAGE, { maximumFractionDigits: 4 });

export function UsageView({ installationId }: { readonly installationId: string }) {
  const found = useQuery({
    queryKey: ['installations', installationId, 'usage'],
    queryFn: () => readBody(rest.GET('/installations/{id}/usage', { params: { path: { id: installationId } } })),
    refetchInterval: FOLLOW_MS,
  });
  const error = useReadError(found);
  if (error && !found.data) return <ErrorAlert error={error} reset={() => void found.refetch()} />;
  if (!found.data) return <Skeleton height={120} aria-label="Loading" />;
  const { total, today, models, days } = found.data;
  if (days.length === 0)
    return (
      <EmptyState icon={IconSparkles}>
        The plugin has asked no model yet. Its usage of host.llm appears here.
      </EmptyState>
    );
  return (
    <Stack>
      <Group grow align="stretch">
        <Sum title="Today" spent={today} />
        <Sum title="Total" spent={total} />
      </Group>
      <SpentTable name="Model" rows={models.map((row) => ({ name: row.model, ...row }))} />
      <SpentTable name="Day" rows={days.map((row) => ({ name: row.day, ...row }))} />
      <Text size="sm" c="dimmed">
        Days begin at midnight, UTC. Costs use the operator’s price list; models without a price count as 0.
      </Text>
    </Stack>
  );
}

function Sum({ title, spent }: { readonly title: string; readonly spent: Spent }) {
  return (
    <Section title={title}>
      <DescriptionList
        rows={[
          ['Answers', formatNumber(spent.answers)],
          ['Input tokens', formatNumber(spent.inputTokens)],
          ['Output tokens', formatNumber(spent.outputTokens)],
          ['Cost', COST.format(spent.cost)],
        ]}
      />
    </Section>
  );
}

function SpentTable({ name, rows }: { readonly name: string; readonly rows: readonly (Spent & { name: string })[] }) {
  const shown = rows.map((row) => ({
    key: row.name,
    cells: [
      escapeText(row.name),
      formatNumber(row.answers),
      formatNumber(row.inputTokens),
      formatNumber(row.outputTokens),
      COST.format(row.cost),
    ],
  }));
  const titles = [name, 'Answers', 'Input tokens', 'Output tokens', 'Cost'];
  return <DataTable label={`By ${name.toLowerCase()}`} titles={titles} rows={shown} numeric={titles.slice(1)} />;
}

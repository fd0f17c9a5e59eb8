/** What a plugin can reach, in words, the riskiest first. */
import { Badge, Group, List, Text } from '@mantine/core';
import type { components } from '../rest/schema.d.ts';

export type Reach = components['schemas']['CatalogSummary']['reach'];
export const RISK_COLOURS = { low: 'teal', medium: 'yellow', high: 'red' } as const;
const RISKS = ['high', 'medium', 'low'] as const;

export function ReachList({ reach, none }: { readonly reach: Reach; readonly none?: string }) {
  if (reach.length === 0) return <Text>{none ?? 'It reaches nothing of yours.'}</Text>;
  const sorted = RISKS.flatMap((risk) => reach.filter((one) => one.risk === risk));
  return (
    <List listStyleType="none" spacing="xs">
      {sorted.map(({ capability, sentence, risk }) => (
        <List.Item key={capability} styles={{ itemWrapper: { width: '100%' }, itemLabel: { width: '100%' } }}>
          <Group gap="xs" wrap="nowrap" align="flex-start">
            <Badge size="sm" variant="light" color={RISK_COLOURS[risk]} miw={70} mt={2}>
              {risk}
            </Badge>
            <div>
              <Text size="sm">{sentence}</Text>
              <Text size="xs" ff="monospace">
                {capability}
              </Text>
            </div>
          </Group>
        </List.Item>
      ))}
    </List>
  );
}

/** How far a plugin reaches, as a colour and a word; each badge's text says it in full. */
import { Badge, Group, Text, Tooltip } from '@mantine/core';

import { type Reach, RISK_COLOURS } from './reach-list.tsx';

const RISKS = ['high', 'medium', 'low'] as const;

export function ReachBadges({ reach }: { readonly reach: Reach }) {
  if (reach.length === 0) {
    return (
      <Text size="xs" c="dimmed">
        Reaches nothing of yours
      </Text>
    );
  }
  return (
    <Group gap={6}>
      {RISKS.map((risk) => {
        const sentences = reach.filter((one) => one.risk === risk).map(({ sentence }) => sentence);
        if (sentences.length === 0) return null;
        return (
          <Tooltip key={risk} multiline maw={360} label={sentences.join(' ')}>
            <Badge size="sm" variant="light" color={RISK_COLOURS[risk]} tabIndex={0}>
              {sentences.length} {risk} risk
            </Badge>
          </Tooltip>
        );
      })}
    </Group>
  );
}

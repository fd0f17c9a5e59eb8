/** The account menu: colour scheme, REST reference and sign-out. */
import { Button, type MantineColorScheme, Menu, useMantineColorScheme } from '@mantine/core';
import { useIsMutating } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useMe } from '../rest/me.ts';
import { useAction } from '../rest/use-action.ts';
import { signOut } from '../sign-in/sign-in-requests.ts';
import {
  IconApi,
  IconDeviceDesktop,
  IconLogout,
  IconMoon,
  IconSelector,
  IconSun,
  IconUserCircle,
} from '../style/icons.tsx';
import { isTextLost, UnsavedDialog } from './unsaved-guard.tsx';

const SCHEMES = [
  { value: 'light', label: 'Light', icon: IconSun },
  { value: 'dark', label: 'Dark', icon: IconMoon },
  { value: 'auto', label: 'Use system setting', icon: IconDeviceDesktop },
] as const;

/** @param wide full width, as below the navigation */
export function AccountMenu({ wide = false }: { readonly wide?: boolean }) {
  const { data } = useMe();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const leave = useAction(signOut);
  /** What waits for the answer of the user: to sign out here, or everywhere. */
  const [asked, setAsked] = useState<(() => void) | null>(null);
  const start = (everywhere: boolean) => {
    const run = () => leave.mutate(everywhere);
    if (isTextLost()) setAsked(() => run);
    else run();
  };
  const close = () => setAsked(null);
  const running = useIsMutating();
  // A save that was under way may have succeeded, so that nothing is left to ask.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it looks again when an action has ended
  useEffect(() => {
    if (asked !== null && !isTextLost()) close();
  }, [running]);
  return (
    <>
      <Menu position={wide ? 'top-start' : 'bottom-end'} width={210}>
        <Menu.Target>
          <Button
            variant="subtle"
            color="gray"
            c="var(--mantine-color-text)"
            fullWidth={wide}
            justify={wide ? 'space-between' : 'center'}
            px="xs"
            leftSection={<IconUserCircle size={20} stroke={1.6} />}
            rightSection={wide ? <IconSelector size={15} /> : null}
            styles={{ label: { flex: wide ? 1 : undefined } }}
          >
            {data?.name ?? 'Account'}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {data?.operator ? <Menu.Label>Operator</Menu.Label> : null}
          <Menu.RadioGroup value={colorScheme} onChange={(chosen) => setColorScheme(chosen as MantineColorScheme)}>
            {SCHEMES.map(({ value, label, icon: Icon }) => (
              <Menu.RadioItem key={value} value={value} rightSection={<Icon size={16} />} closeMenuOnClick>
                {label}
              </Menu.RadioItem>
            ))}
          </Menu.RadioGroup>
          <Menu.Divider />
          <Menu.Item leftSection={<IconApi size={16} />} component="a" href="/api/docs">
            REST interface
          </Menu.Item>
          <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => start(false)}>
            Sign out
          </Menu.Item>
          <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => start(true)}>
            Sign out everywhere
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <UnsavedDialog
        isOpen={asked !== null}
        onStay={close}
        leave="Sign out without saving"
        onLeave={() => {
          close();
          asked?.();
        }}
      >
        What you typed on this page is not saved, and is lost if you sign out.
      </UnsavedDialog>
    </>
  );
}

/** The entries of the main navigation. */
import {
  IconActivityHeartbeat,
  IconBook2,
  IconBuildingStore,
  IconDatabase,
  IconMessages,
  IconPackage,
  IconPlayerPlay,
  IconPlug,
  IconRobot,
  IconShieldCheck,
} from '../style/icons.tsx';

export const places = [
  {
    title: 'Use',
    places: [
      { to: '/catalog', label: 'Catalog', icon: IconBuildingStore },
      { to: '/installations', label: 'Installations', icon: IconPlug },
      { to: '/agents', label: 'Agents', icon: IconRobot },
      { to: '/services', label: 'Services', icon: IconMessages },
      { to: '/storage', label: 'Storage', icon: IconDatabase },
      { to: '/tokens', label: 'Tokens', icon: IconShieldCheck },
    ],
  },
  {
    title: 'Build',
    places: [
      { to: '/plugins', label: 'My plugins', icon: IconPackage },
      { to: '/playground', label: 'Playground', icon: IconPlayerPlay },
    ],
  },
] as const;

/** Additional entries for operators. */
export const operatorPlaces = [
  { title: 'Operate', places: [{ to: '/operator', label: 'Administration', icon: IconActivityHeartbeat }] },
] as const;

/** The documentation is a separate site that needs no sign-in. */
export const documentation = { href: '/docs', label: 'Documentation', icon: IconBook2 } as const;
